#!/usr/bin/python3
"""Writes cases.json: what Python's jinja2 makes of small templates, with the settings of transformers.

Debian's python3-jinja2 3.1.2. A case is a template, its variables, and the text or an error: error texts are Python's and not
compared, except what raise_exception was given.
"""
import json
import os

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """The generation tag of transformers, as far as the text goes."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


VARIABLES = {
    "user": {"name": "Ada", "age": 36, "tags": ["x", "y"], "items": "shadowed", "nested": {"a": [1, {"b": "deep"}]}},
    "messages": [
        {"role": "system", "content": " Be brief. "},
        {"role": "user", "content": "Hi <there> & 'you' \"all\""},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello", "tool_calls": [{"function": {"name": "f", "arguments": {"b": 1, "a": [1.5, None, True]}}}]},
        {"role": "user", "content": [{"type": "text", "text": "part"}, {"type": "image"}]},
    ],
    "numbers": [3, 1, 2, 10, -5],
    "floats": [1.0, 0.1, 1e20, 1e-7, 123456789.125, 1e16, 1e15, -0.0, 2.5],
    "words": ["pear", "Apple", "fig", "apple"],
    "unicode": "Größe 東京 🙂 é",
    "lines": "one\n  two\n\nthree\n",
    "empty": "", "nothing": None, "yes": True, "no": False, "zero": 0, "one": 1, "pi": 3.14159,
    "mixed": [1, "a", None, True, 2.5, [1, 2], {"k": "v"}],
    "table": {"b": 2, "a": 1, "C": 3},
    "rows": [{"n": "x", "v": 2, "on": True}, {"n": "y", "v": 1, "on": False}, {"n": "X", "v": 3}, {"n": "z", "v": None, "on": None}],
}

EXPRESSIONS = r"""
1 + 2 * 3
(1 + 2) * 3
7 // 2
-7 // 2
7 // -2
7 % 3
-7 % 3
7 % -3
7.5 // 2
-7.5 // 2
-7.5 % 2
7.5 % -2
7 / 2
6 / 2
2 ** 10
2 ** -1
-2 ** 2
2 ** 3 ** 2
2.0 ** 0.5
1 / 0
1 // 0
1 % 0
1.5 % 0
1 + 1.0
1e3
1_000
1.5e-3
0.1 + 0.2
1 - -1
+5
- 5 | abs
-5 | abs
(-5) | abs
true + true
1 + "a"
"a" + 1
"a" * 3
3 * "ab"
"a" * -1
[1] * 3
[1, 2] + [3]
(1, 2) + (3,)
[1] + (2,)
"a" ~ 1 ~ none ~ true ~ 1.5
"a" "b" 'c'
'it\'s' ~ "\"q\""
'\n\t\\ \x41 \u00e9 \101 \q'
"tab\tnl\nend"
[1, 2.0, "x", none, true, [], {}, ()]
(1,)
(1, 2)
()
{"a": 1, 2: "b", none: true, 1.5: [1]}
{'it\'s': "q\"", 'both\'"': "\n"}
{"a": 1, "a": 2}
{1: "a", true: "b", 1.0: "c"}
1 == 1.0
1 == true
"1" == 1
none == none
[1, 2] == [1, 2.0]
[1] == (1,)
{"a": 1} == {"a": 1.0}
1 < 2 < 3
1 < 3 < 2
1 < 2 > 0
3 > 2 >= 2 != 1
"a" < "b"
"Z" < "a"
"é" > "z"
[1, 2] < [1, 3]
(1, 2) < (1, 2, 3)
1 < "a"
none < 1
true < 2
1 <= 1.0
1 in [1, 2]
"a" in "abc"
"x" not in "abc"
"" in ""
1 in "abc"
"a" in {"a": 1}
2 in (1, 2)
1 in missing
missing in [1]
1 in 5
not true
not not 1
not 1 == 2
true and 0
0 or "x"
"" or none
1 and 2 and 3
none and missing.x
true or missing.x
1 if true else 2
1 if false
1 if false else 2 if false else 3
(1 if false) is defined
missing
missing.x
missing["x"]
missing + 1
missing()
missing ~ "x"
missing | upper
missing | length
missing | list
missing | default("d")
missing | d(5)
missing.x | default("d")
user.missing | default("d")
user.missing.x
user.missing
nothing.x
nothing["x"]
nothing.x.y
empty | default("d")
empty | default("d", true)
nothing | default("d", boolean=true)
no | default(1)
user.name
user["name"]
user.items is callable
user["items"]
user.tags[0]
user.tags[-1]
user.tags[5]
user.tags["x"]
user.tags.0
user.nested.a[1].b
user["nested"]["a"][1]["b"]
user.tags.append("z")
user.tags.append is defined
user.update({"a": 1})
user.pop("name")
user.get("name")
user.get("zz")
user.get("zz", "dflt")
user.keys() | list
user.values() | list | length
table.items() | list
table.items()
table.keys()
table.values()
table | list
table | length
user.__class__
"x".__class__
numbers[1:3]
numbers[:2]
numbers[-2:]
numbers[::-1]
numbers[::2]
numbers[3:0:-1]
numbers[10:]
numbers[:-10]
numbers[1:3:1]
numbers[::0]
numbers[100]
numbers["a":2]
unicode[0]
unicode[-1]
unicode[6:8]
unicode[::-1]
unicode[9]
unicode | length
unicode | upper
unicode | lower
unicode | list
"straße" | upper
"ΑΣ ΣΑΣ" | lower
"İ" | lower | length
"ǆ" | title
"ŉx".upper()
"abc"[1]
"abc"[5]
"abc"[-1]
"abc"[1:]
"abc"[::2]
5[0]
(1, 2, 3)[1:]
(1, 2)[0]
range(5) | list
range(2, 5) | list
range(5, 0, -2) | list
range(5)
range(1, 10, 3)
range(10)[2:5] | list
range(3)[1]
range(0)
range(3) | length
range(1, 2, 0)
range(200000)
range("a")
dict(a=1, b="x")
dict({"a": 1}, b=2)
dict([("a", 1)])
namespace(a=1).a
namespace(a=1).b
namespace({"z": 1}).z
"Hello World".split()
"a,b,,c".split(",")
"a,b,c".split(",", 1)
"a b  c ".split(" ")
"  a b  ".split(none, 1)
"a,b,c".rsplit(",", 1)
"  a b c ".rsplit(none, 1)
"a".split("")
"".split()
"".split(",")
"abc".split("abc")
"</think>x</think>y".split("</think>")[-1]
"  x ".strip() ~ "|"
"  x ".lstrip() ~ "|"
"  x ".rstrip() ~ "|"
"xxaxx".strip("x")
"xyaxy".lstrip("xy")
"ééaé".strip("é")
"\u3000x\u00a0".strip()
"abc".startswith("a")
"abc".startswith(("x", "a"))
"abc".startswith("b", 1)
"abc".endswith("bc")
"abc".endswith(("x", "c"))
"abc".endswith("")
"abc".startswith(["a"])
"aXbXc".replace("X", "-")
"aXbXc".replace("X", "-", 1)
"abc".replace("", "-")
"éa".replace("", ".")
"abc".replace("", "-", 2)
"a".replace("a", 1)
"abc".upper() ~ "ABC".lower()
"hello wORLD don't x-y".title()
"hello wORLD".capitalize()
"ßtraße".capitalize()
"ßa".title()
"aBc".swapcase()
"Straße".casefold()
"-".join(["a", "b"])
"-".join("abc")
"-".join([1])
"-".join([])
"hello".find("l")
"hello".find("z")
"hello".find("l", 3)
"hello".find("l", 4)
"hello".rfind("l")
"éhé".find("h")
"éhé".rfind("é")
"hello".index("l")
"hello".index("z")
"hello".count("l")
"aaa".count("aa")
"abc".count("")
"{} {}".format(1, "x")
"{1} {0}".format(1, "x")
"{a} {b.name} {c[0]} {d[k]}".format(a=1, b=user, c=[7], d={"k": "v"})
"{:>5}|{:<5}|{:^5}|".format("a", "b", "c")
"{:05d} {:x} {:X} {:o} {:b} {:#x} {:,}".format(42, 255, 255, 8, 5, 255, 1234567)
"{:.2f} {:.0f} {:e} {:g} {:.3} {:%}".format(3.14159, 2.5, 12345.678, 0.0001, 2.0, 0.25)
"{!r} {!s}".format("x", "y")
"{{}} {}".format(1)
"{".format(1)
"{}".format()
"{:d}".format("x")
"{:*^9}".format("mid")
"{:+d} {: d} {:-d}".format(5, 5, 5)
"{:08.3f}".format(-3.14159)
"{}{}".format(none, true)
"%s and %s" % ("a", 1)
"%d%%" % 50
"%5.2f|%-5s|%5s|%05d" % (3.14159, "a", "b", 42)
"%x %X %o %e %g" % (255, 255, 8, 12345.678, 0.00001)
"%r" % "x"
"%(a)s-%(b)d" % {"a": "x", "b": 3}
"%s" % [1, 2]
"%s %s" % "a"
"%s" % (1, 2)
"%d" % "x"
"%d" % 3.99
"%+d % d" % (5, 5)
"%.3s" % "abcdef"
"%c%c" % ("x", 65)
"%s" | format("x")
"%s %s" | format("x", 1)
"%(a)s" | format(a=1)
"a\nb\r\nc\n".splitlines()
"a\nb\n".splitlines(true)
"".splitlines()
"prefix-x".removeprefix("prefix-")
"x.txt".removesuffix(".txt")
"x".removesuffix("")
"123".isdigit()
"12a".isdigit()
"²".isdigit()
"²".isdecimal()
"½".isnumeric()
"".isdigit()
"abc".isalpha()
"é1".isalnum()
"a b".isalpha()
"abc".islower()
"ABC1".isupper()
"Abc Def".istitle()
" \t".isspace()
"abc".isascii()
"a-b-c".partition("-")
"a-b-c".rpartition("-")
"abc".partition("-")
"abc".rpartition("-")
"42".zfill(5)
"-42".zfill(5)
"x".center(6) ~ "|"
"xy".center(7, "*")
"x".center(4, "*")
"x".ljust(4, ".") ~ "x".rjust(4, ".")
"x".nosuch()
"x".nosuch
"a".join(nothing)
[1, 2, 1].count(1)
[1, 2].index(2)
[1, 2].index(3)
[1, 2].copy()
(1, 2).index(2)
user | tojson
messages[2].tool_calls[0].function.arguments | tojson
messages | tojson(indent=2)
table | tojson(indent=4)
{"a": {}, "b": [], "c": [1, [2]], "d": ()} | tojson(indent=2)
{"a": [1]} | tojson(indent=0)
{"a": [1]} | tojson(indent="--")
{"a": [1, 2]} | tojson(separators=(",", ":"))
{"a": [1]} | tojson(indent=1, separators=(",", ":"))
table | tojson(sort_keys=true)
unicode | tojson
unicode | tojson(ensure_ascii=true)
"\x00\x1f\x7f\u2028</script>" | tojson
floats | tojson
floats
[1e400, -1e400] | tojson
{1: "a", none: "b", true: "c", 1.5: "d"} | tojson
{(1, 2): "a"} | tojson
missing | tojson
(1, 2) | tojson
range(2) | tojson
namespace(a=1) | tojson
"  x \n" | trim ~ "|"
"xxaxx" | trim("x")
5 | trim
numbers | join(", ")
numbers | join
rows | join(",", attribute="n")
[1, none, true, "x", 2.0] | join("-")
"abc" | join("-")
nothing | join
5 | join
"hello world-foo (bar) don't" | title
"hELLO" | capitalize
"aXb" | replace("X", "y")
"aaa" | replace("a", "b", 2)
5 | replace("5", "6")
[1, 2] | first
[] | first
"é1" | first
"é1é" | last
[1, 2] | last
[] | last
{} | first
table | first
numbers | sort
numbers | sort(reverse=true)
words | sort
words | sort(case_sensitive=true)
rows | sort(attribute="n") | map(attribute="v") | list
rows | sort(attribute="v")
[{"a": 1, "b": 2}, {"a": 1, "b": 1}] | sort(attribute="a,b")
[1, "a"] | sort
table | sort
table | dictsort
table | dictsort(true)
table | dictsort(by="value", reverse=true)
table | dictsort(by="zz")
numbers | min
numbers | max
words | min
words | max(case_sensitive=true)
[] | min
rows | max(attribute="n")
numbers | sum
[[1], [2]] | sum(start=[])
rows[:3] | sum(attribute="v")
["a"] | sum
[1.5, 2] | sum
numbers | reverse | list
"abc" | reverse
numbers | length
numbers | count
5 | length
nothing | length
numbers | map("string") | list
numbers | map("abs") | list
words | map("upper") | join(",")
words | map("replace", "p", "q") | list
rows | map(attribute="n") | list
rows | map(attribute="on", default="?") | list
rows | map(attribute="zz") | list
messages | map(attribute="content") | map("length") | list
numbers | map("nosuch") | list
user.nested.a | map(attribute="b") | list
[user] | map(attribute="nested.a.1.b") | list
[[1, 2], [3, 4]] | map("first") | list
[[1, 2], [3, 4]] | map(attribute=1) | list
numbers | select("odd") | list
numbers | reject("odd") | list
mixed | select | list
mixed | select("string") | list
numbers | select("gt", 2) | list
numbers | select(">", 2) | list
numbers | select("in", [1, 2]) | list
numbers | select("nosuch") | list
rows | selectattr("on") | map(attribute="n") | list
rows | rejectattr("on") | map(attribute="n") | list
rows | selectattr("on", "defined") | map(attribute="n") | list
rows | selectattr("n", "equalto", "x") | list | length
rows | selectattr("v", "none") | list | length
messages | selectattr("role", "==", "user") | list | length
messages | selectattr("role", "in", ["user", "system"]) | map(attribute="role") | join(",")
messages | selectattr("nested.x", "undefined") | list | length
words | unique | list
words | unique(case_sensitive=true) | list
[1, 1.0, true, 2] | unique | list
rows | unique(attribute="n") | map(attribute="v") | list
table | items | list
missing | items | list
[1] | items | list
[1, 2, 3, 4, 5] | batch(2) | list
[1, 2, 3] | batch(2, "x") | list
[1, 2, 3, 4, 5] | slice(2) | list
[1, 2, 3, 4, 5] | slice(3, "x") | list
rows | groupby("n") | length
rows | groupby("n")
rows | groupby("n", case_sensitive=true) | map(attribute=0) | list
"42" | int
" 42 " | int
"4_2" | int
"4.9" | int
"abc" | int
"abc" | int(7)
"abc" | int(default=-1)
"ff" | int(base=16)
"0x1A" | int(0, 16)
"0x1A" | int(0, 0)
3.99 | int
-3.99 | int
true | int
nothing | int
[] | int(3)
missing | int
"1e3" | int
"inf" | int
"3.5" | float
"abc" | float
"abc" | float(1.5)
" 1e5 " | float
"nan" | float
"-inf" | float
3 | float
nothing | float
true | float
missing | float
5 | string ~ "x"
5.0 | string
nothing | string
missing | string
[1, "a"] | string
3.14159 | round
3.14159 | round(2)
2.5 | round
3.5 | round
-2.5 | round
2.675 | round(2)
3.2 | round(0, "ceil")
3.8 | round(method="floor")
1234.5 | round(-2)
5 | round
1250 | round(-2)
1350 | round(-2)
-1250 | round(-2)
"x" | round
3.14159 | round(2, "zz")
-5 | abs
-5.5 | abs
"x" | abs
lines | indent
lines | indent(2, true)
lines | indent(2, blank=true)
lines | indent(2, true, true)
lines | indent("> ")
"x" | indent(2, first=true)
"" | indent(2, true)
"a\n\n" | indent(1, false, true)
"hello world foo bar" | truncate(10)
"hello world foo bar" | truncate(10, true)
"hello world foo bar" | truncate(11, false, "…", 0)
"short" | truncate(3)
"a b c d e f g h" | truncate(2)
"one two, three-four five_six" | wordcount
"é à" | wordcount
"<a href='x'>\"&" | e
"<b>" | escape
"<b>" | safe
5 | e
"a b/c?d=é&f" | urlencode
{"a b": "c d", "e": 1} | urlencode
[["a", 1]] | urlencode
"x" | center(5) ~ "|"
user | attr("name")
user | attr("items") is defined
"x" | attr("upper") is defined
numbers | list
"abc" | list
table | list
nothing | list
numbers | nosuch
"x" | upper | lower | title
"abc" | upper()
1 is odd
2 is even
1.5 is odd
"x" is odd
9 is divisibleby 3
9 is divisibleby(2)
9 is divisibleby 0
user is defined
missing is defined
missing is undefined
user.zz is defined
user.zz is not defined
nothing is none
nothing is not none
missing is none
1 is number
1.5 is number
true is number
"1" is number
1 is integer
true is integer
1.0 is integer
1.0 is float
1 is float
true is boolean
1 is boolean
true is true
1 is true
false is false
0 is false
none is false
"x" is string
1 is string
user is mapping
[] is mapping
[] is sequence
"x" is sequence
{} is sequence
(1,) is sequence
5 is sequence
missing is sequence
range(2) is sequence
table.items() is sequence
[] is iterable
5 is iterable
"x" is iterable
nothing is iterable
missing is iterable
"x".upper is callable
5 is callable
range is callable
"abc" is lower
"ABC" is upper
"aB" is upper
1 is sameas 1
true is sameas true
none is sameas none
1 is sameas true
1 is eq 1
1 is equalto 1
1 is ne 2
1 is lt 2
1 is le 1
2 is gt 1
2 is ge 3
2 is greaterthan 1
2 is lessthan 1
1 is in [1]
"a" is in "abc"
2 is not in [1]
"upper" is filter
"nosuch" is filter
"odd" is test
"x" is escaped
1 is nosuch
1 is defined and 2 is even
1 is odd or missing.x
not 1 is odd
1 is odd is defined
1 is odd | string
[1 is odd, 2 is odd]
1 == 1 is true
user.name is string and user.age is integer
numbers | length > 3
numbers | length - 1
"a" ~ numbers | length
-numbers[0]
- numbers | length
numbers[0] + numbers[1] | abs
"x" if user.age > 30 and "A" in user.name else "y"
[x, y] 
{"a": missing} | string
[missing]
user.tags | join(", ") | upper
(user.name, user.age)
user.name, user.age
{"a": {"b": [1, 2, {"c": none}]}}.a.b[2].c
"\\n"
'{{ "x" }}'
"a}}b"
1.
1 2
a b
(1
[1
{"a" 1}
x.
x[
"open
@
a ? b
none
None
True ~ False ~ None
lipsum2
raise_exception("stop 'here'")
raise_exception()
strftime_now is defined2
numbers[nothing]
numbers[true]
table[none]
table[["x"]]
user[numbers]
"%s" % none
"%s" % missing
9223372036854775807
4.35 * 100
1e22
1.7976931348623157e308
5e-324
100000000000000000000.0
123456.789e3
0.00001
-0.0
1e5 // 3
"a" in user
"name" in user and user.name
user.tags == ["x", "y"]
user.age // 5 ~ "/" ~ user.age % 5
messages[0]["role"] ~ ":" ~ messages[0]["content"] | trim
messages[-1].content[0].text
messages[1:] | map(attribute="role") | list
messages | length - 1
(messages | last).role
messages[0].content is string and messages[3].content is not string
"".join(["a"]) ~ "".strip() ~ "|"
"a" * 2 ~ "b" * 2
"%s" * 2 % (1, 2)
1 if 0 else 2 ~ 3
(1, 2)|join("-")
[3,1,2]|sort|first
{"b":1,"a":2}|dictsort|first|last
"A" "B"|lower
1 in [1] in [[1]]
[[1, 2], [3]] | sum(start=[]) | length
{"x": 1}.items() | list | first | first
"x" ~ {"a": none, "b": true}
(1, 2, 3) | sort(reverse=true)
"a,b" | replace(",", "\n") | length
[1, 2, 3][-2:][0]
"é" * 3
"abc" | first | upper
numbers | sort | reverse | first
rows | map(attribute="n") | map("upper") | unique | list
true == 1 and true is not sameas 1
"x" | default
false | default("d") ~ none | default("e")
[none] | map("default", "x", true) | list
"line1\nline2" | replace("\n", "\\n")
user.keys() | first
loop is defined
nothing | select | list
zero | map("upper") | list
"x" % missing
"x" % [1]
"x" % {}
"x" % 1
numbers | truncate(9)
missing | truncate
numbers | truncate(3, leeway=0)
one[1:]
table[1:]
nothing[:2]
user.tags | groupby("zz")
missing is callable
1e400
"  a b  ".split(none, 0)
"{:.3}".format(1234.5)
""".strip("\n").split("\n")

TEMPLATES = [
    # whitespace control
    "a\n{% if yes %}\nb\n{% endif %}\nc\n", "a\n  {% if yes %}\n  b\n  {% endif %}\nc", "a {%- if yes -%} b {%- endif -%} c",
    "a {%+ if yes +%} b {%+ endif +%}\n c", "  {{ 1 }}  \n  {{- 2 -}}  \n x", "a\n  {# comment #}\nb", "a {#- c -#} b", "a\n{# x +#}\nb",
    "  {%+ if yes %}x{% endif %}", "x  {% if yes %}y{% endif %}", "\n\n{% if yes %}\n\nx{% endif %}\n\n", "a\r\nb\rc\n", "x\n", "x\n\n",
    "{{ 1 }}\n", "{{ 1 }}\n\n", "{% if yes %}x{% endif %}\n{% if yes %}y{% endif %}", "{% if yes %}\n  {% if yes %}\n  z\n  {% endif %}\n{% endif %}",
    "\t{% if yes %}\tx\t{% endif %}\t", "{{ 1 -}}\n  {% if yes %}x{% endif %}", "{%- if yes %}\n  {{- 'a' }}\n{%- endif %}\n", "a{{- ' b ' -}}c",
    "{% raw %}{{ x }}{% y %}{% endraw %}", "a {%- raw -%} {{ x }} {%- endraw -%} b", "{% raw %}\n{{\n{% endraw %}\nx", "{% raw %}open", "{{ '{% raw %}' }}",
    "{#- multi\nline -#}\n x", "{# {{ x }} #}y", "{{ {'a': {'b': 1}}.a.b }}", "{{ {'a': {'b': 1}} }}", "{{ [[1], {'x': (1, 2)}] }}", "{{'a'}}{{\"b\"}}", "{{-1}}", "{{ -1 }}", "{%if yes%}x{%endif%}",
    "   {{ 1 }}", "a\n   {{ 1 }}", "a\n   {#- x #}\n  b", "{% if yes -%}\n\n  x\n\n{%- endif %}", "{%- for x in numbers -%}\n {{ x }} \n{%- endfor -%}", "}}", "%}", "{ { x } }", "{", "a{", "{{ 'a' ~\n'b' }}",
    "line {{ 1 }}\n{%- if yes %}\n\nx\n{%- endif %}\ny",
    # if
    "{% if no %}a{% elif yes %}b{% else %}c{% endif %}", "{% if no %}a{% elif nothing %}b{% else %}c{% endif %}", "{% if missing %}a{% else %}b{% endif %}",
    "{% if numbers %}a{% endif %}{% if [] %}b{% endif %}{% if {} %}c{% endif %}{% if '' %}d{% endif %}{% if 0.0 %}e{% endif %}{% if '0' %}f{% endif %}",
    "{% if yes %}{% set x = 1 %}{% endif %}{{ x }}", "{% if no %}{% set x = 1 %}{% endif %}{{ x }}|", "{% if yes %}", "{% endif %}", "{% if %}x{% endif %}", "{% else %}", "{% if yes: %}x{% endif %}", "{% if yes %}a{% else %}b{% else %}c{% endif %}",
    "{% if no %}{{ 1 | nosuch }}{% endif %}ok", "{% if yes %}{{ 1 | nosuch }}{% endif %}", "{% if no %}{{ 1 is nosuch }}{% endif %}ok", "{{ 1 | nosuch }}",
    # for
    "{% for x in numbers %}{{ x }},{% endfor %}", "{% for x in [] %}a{% else %}none{% endfor %}", "{% for x in missing %}a{% else %}none{% endfor %}", "{% for x in nothing %}a{% endfor %}", "{% for x in 5 %}a{% endfor %}",
    "{% for x in numbers %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }};{% endfor %}",
    "{% for x in numbers %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}", "{% for x in numbers %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}",
    "{% for x in numbers %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}", "{% for x in [1, 2] %}{% for y in [1] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}{{ loop.depth }}{% endfor %}",
    "{% for x in numbers if x > 1 %}{{ x }}/{{ loop.length }};{% endfor %}", "{% for x in numbers if x > 100 %}{{ x }}{% else %}none{% endfor %}", "{% for k, v in table.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in table %}{{ k }}{% endfor %}",
    "{% for a, b in [(1, 2), [3, 4]] %}{{ a + b }};{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}x{% endfor %}", "{% for a, b in ['xy'] %}{{ b }}{{ a }}{% endfor %}", "{% for c in 'éa' %}[{{ c }}]{% endfor %}",
    "{% for x in numbers %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in numbers %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in [1, 2] %}{% for y in [1, 2] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}",
    "{% set n = 0 %}{% for x in numbers %}{% set n = n + x %}{{ n }},{% endfor %}{{ n }}", "{% set ns = namespace(n=0) %}{% for x in numbers %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}", "{% for x in [1] %}{% endfor %}{{ x }}|", "{% set x = 9 %}{% for x in [1] %}{{ x }}{% endfor %}{{ x }}",
    "{% for x in range(3) %}{{ x }}{% endfor %}", "{% for x in numbers[::-1] %}{{ x }}{% endfor %}", "{% for x in numbers | sort %}{{ x }}{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for x in (1, 2) if x == 2 %}{{ x }}{% endfor %}", "{% for x in [1] if yes else [2] %}{{ x }}{% endfor %}", "{% for x in ([1] if no else [2]) %}{{ x }}{% endfor %}",
    "{% for x in numbers %}{{ loop }}{% break %}{% endfor %}", "{% for x in [1, 2, 3] %}{{ ', ' if not loop.first }}{{ x }}{% endfor %}", "{% for x in [[1, 2], [3]] %}{% for y in x %}{{ loop.index }}:{{ y }} {% endfor %}{{ loop.index }};{% endfor %}", "{% for x in [1, 2] %}{% set outer = loop %}{% for y in [1] %}{{ outer.index }}{% endfor %}{% endfor %}", "{{ loop }}|", "{% for loop in [1] %}x{% endfor %}",
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "{% for m in messages %}{% if m.role == 'user' and m.content is string %}U{% elif m['role'] == 'assistant' %}A{% else %}?{% endif %}{% endfor %}", "{% for x in table.values() | list + [9] %}{{ x }}{% endfor %}", "{% for x in [3, 2, 1] | map('string') %}{{ x }}{{ loop.last }}{% endfor %}", "{% for item in table | dictsort %}{{ item[0] }}{{ item.1 }}{% endfor %}", "{% for g, xs in rows | groupby('on', default='?') %}{% endfor %}", "{% for x in numbers %}", "{% for x numbers %}{% endfor %}", "{% for 1 in numbers %}{% endfor %}", "{% break %}",
    # set
    "{% set x = 1 %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set x, y = [1, 2, 3] %}", "{% set (a, b) = 'xy' %}{{ b }}{{ a }}", "{% set x %}a{{ 1 }}b{% endset %}[{{ x }}]", "{% set x | upper %}abc{% endset %}{{ x }}", "{% set x | replace('a', 'b') | upper %}aa{% endset %}{{ x }}", "{% set x = 1, 2 %}{{ x }}", "{% set x %}{% set y = 5 %}{{ y }}{% endset %}{{ x }}{{ y }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b }}|", "{% set x = {} %}{% set x.a = 1 %}", "{% set missing.a = 1 %}", "{% set ns = namespace(a=[]) %}{% set ns.a = ns.a + [1] %}{{ ns.a }}{{ ns }}", "{% set ns = namespace(a=1) %}{% set ns.a %}block{% endset %}{{ ns.a }}", "{% set ns = namespace(a=1) %}{{ ns['a'] }}", "{% set true = 1 %}", "{% set x.y.z = 1 %}", "{% set user = 'u' %}{{ user }}", "{% set x = 1 if no %}{{ x is defined }}", "{% set a = b = 1 %}", "{% set %}", "{% set x = numbers %}{% set x = x + [1] %}{{ numbers | length }}{{ x | length }}", "{% set messages = messages[1:] %}{{ messages | length }}", "{% set x = '<' ~ user.name ~ '>' %}{{ x }}", "{% set first = false %}{% if not first %}ok{% endif %}",
    # macros
    "{% macro f(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(b=4, a=5) }} {{ f() }}", "{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}", "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }}", "{% macro f(a) %}x{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}x{% endmacro %}{{ f(b=1) }}", "{% macro f(a) %}x{% endmacro %}{{ f(1, a=1) }}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro f() %}{{ user.name }}{% endmacro %}{{ f() }}", "{% set x = 1 %}{% macro f() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ f() }}", "{% macro f() %}{% set z = 1 %}{% endmacro %}{{ f() }}{{ z }}|", "{% macro f() %}  a\n{% endmacro %}[{{ f() | trim }}]", "{% macro f() %}x{% endmacro %}{{ f.name }}",
    "{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}body{% endcall %}", "{% macro f() %}<{{ caller(1, 2) }}>{% endmacro %}{% call(a, b) f() %}{{ a }}{{ b }}{% endcall %}", "{% macro f(x) %}{{ x }}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}{{ f(1) }}", "{% macro f() %}x{% endmacro %}{% call f() %}y{% endcall %}", "{% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}", "{% macro f(n) %}{% for i in range(n) %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(i) f(3) %}[{{ i }}]{% endcall %}", "{% call 5 %}x{% endcall %}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{{ f() }}{% macro f() %}x{% endmacro %}", "{% macro f(a=1, b) %}{% endmacro %}", "{% for i in [1, 2] %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}", "{% macro f(x) %}{{ x | upper }}{% endmacro %}{{ f('a') ~ f('b') }}", "{% macro f(x) %}{{ x }}{% endmacro %}{{ f([1, 'a']) }}{{ f(none) }}{{ f(*[1]) }}{{ f(**{'x': 2}) }}", "{% macro f(x, y) %}{{ x }}{{ y }}{% endmacro %}{{ f(1, *[2]) }}{{ f(*[1], **{'y': 3}) }}", "{% macro f(x) %}{% if x %}{{ x }}{% else %}none{% endif %}{% endmacro %}{{ f() }}{{ f(0) }}{{ f('a') }}", "{% macro f() %}{{ loop }}|{% endmacro %}{% for i in [1] %}{{ f() }}{% endfor %}",
    "{% if yes %}{% macro f() %}x{% endmacro %}{% endif %}{{ f() }}", "{% macro render(v, depth=0) %}{% if v is mapping %}{ {%- for k, w in v.items() %}{{ k }}:{{ render(w, depth + 1) }},{% endfor -%} }{% elif v is iterable and v is not string %}[{% for w in v %}{{ render(w, depth + 1) }},{% endfor %}]{% else %}{{ v }}@{{ depth }}{% endif %}{% endmacro %}{{ render(user) }}",
    # filter blocks, with, generation, others
    "{% filter upper %}abc{{ user.name }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aaa{% endfilter %}", "{% filter trim %}  x  {% endfilter %}|", "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x }}|", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}|", "{% generation %}x{{ user.name }}{% endgeneration %}", "a {%- generation -%} x {%- endgeneration -%} b", "{% for m in [1, 2] %}{% generation %}{{ m }}{{ loop.index }}{% endgeneration %}{% endfor %}",
    "{% nosuch %}", "{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}", "{{ raise_exception('Only user and assistant roles are supported!') }}", "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}", "{% do x %}", "{{ }}", "{% %}", "{{ x", "{% if x", "{# x", "{{ 'a", "{{ a b }}", "{{ 1 }",
    # idioms of published templates
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + (message['content'] if message['content'] is string else '') + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content']|trim %}{%- set messages = messages[1:] %}{%- else %}{%- set system_message = \"\" %}{%- endif %}{{- system_message }}|{{ messages|length }}",
    "{%- if not tools is defined %}{%- set tools = none %}{%- endif %}{%- if tools is not none %}T{% else %}N{% endif %}", "{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}{{ tools is defined }}",
    "{%- set loop_messages = messages %}{%- for message in loop_messages %}{%- set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + (message['content'] | string | trim) + '<|eot_id|>' %}{%- if loop.index0 == 0 %}{%- set content = '<s>' + content %}{%- endif %}{{- content }}{%- endfor %}",
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% endfor %}",
    "{%- for message in messages | selectattr('role', 'ne', 'system') %}{{ loop.index }}{{ message.role }}{%- endfor %}", "{%- set user_messages = messages | selectattr('role', 'equalto', 'user') | list %}{{ user_messages | length }}{{ (user_messages | last).content[0].text }}",
    "{%- for tool_call in messages[2].tool_calls %}{%- set out = tool_call.function %}{{- '{\"name\": \"' + out.name + '\", \"arguments\": ' + out.arguments | tojson + '}' }}{%- endfor %}", "{%- for k, v in messages[2].tool_calls[0].function.arguments | items %}<{{ k }}>{{ v if v is string else v | tojson }}</{{ k }}>{%- endfor %}", "{%- for arg_name, arg_val in messages[2].tool_calls[0].function.arguments.items() %}{{- arg_name + '=\"' + arg_val | string + '\"' }}{%- if not loop.last %}, {% endif %}{%- endfor %}",
    "{%- set ns = namespace(is_first=false, is_tool=false, system_prompt='') -%}{%- for message in messages %}{%- if message['role'] == 'system' %}{%- set ns.system_prompt = ns.system_prompt + message['content'] %}{%- endif %}{%- endfor -%}[{{ ns.system_prompt }}]", "{%- macro strip_thinking(text) -%}{%- set ns = namespace(result='') -%}{%- for part in text.split('</think>') -%}{%- if '<think>' in part -%}{%- set ns.result = ns.result + part.split('<think>')[0] -%}{%- else -%}{%- set ns.result = ns.result + part -%}{%- endif -%}{%- endfor -%}{{- ns.result | trim -}}{%- endmacro -%}[{{ strip_thinking(messages[2].content) }}]",
    "{%- macro render_extra_keys(json_dict, handled_keys) -%}{%- if json_dict is mapping %}{%- for json_key in json_dict if json_key not in handled_keys %}{%- if json_dict[json_key] is mapping or (json_dict[json_key] is sequence and json_dict[json_key] is not string) %}{{- '\n<' ~ json_key ~ '>' ~ (json_dict[json_key] | tojson) ~ '</' ~ json_key ~ '>' }}{%- else %}{{-'\n<' ~ json_key ~ '>' ~ (json_dict[json_key] | string) ~ '</' ~ json_key ~ '>' }}{%- endif %}{%- endfor %}{%- endif %}{%- endmacro -%}{{ render_extra_keys(user, ['name']) }}",
    "{%- for content in messages[3].content %}{%- if content.type == 'image' or 'image' in content or 'image_url' in content %}<img>{%- elif 'text' in content %}{{ content.text }}{%- endif %}{%- endfor %}", "{%- if messages[3].content is iterable and messages[3].content is not string %}{%- for item in messages[3].content %}{{ item['type'] }} {% endfor %}{%- endif %}", "{{ messages[1].content.startswith('Hi') and not messages[1].content.endswith('x') }}", "{%- set date = date_string if date_string is defined else '26 Jul 2024' %}{{ date }}", "{{- bos_token ~ 'x' }}", "{{ (messages | map(attribute='role') | list)[-1] == 'user' }}", "{%- set reasoning = messages[2].content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}[{{ reasoning }}]", "{%- for m in messages[::-1] %}{%- set i = (messages|length - 1) - loop.index0 %}{{ i }}{{ m.role }};{%- endfor %}", "{{ messages[0].content | trim }}{{ '\\n' if messages | length > 1 }}{{ 'x' if false }}", "{%- set t = {'a': 'str', 'b': 'int'} %}{{ t.get('a', 'any') }}{{ t['zz'] | default('any') }}", "{{ ['a', 'b'] | join(' or ') if true else '' }}", "{%- set p = user.nested.a %}{%- if p is sequence and p | length > 1 and p[1].b is defined %}{{ p[1].b }}{%- endif %}", "{{ user | tojson(indent=4) | replace('\\n', '\\n  ') }}",
]


def main():
    env = environment()
    cases = []
    for template in ["{{ " + expression + " }}" for expression in EXPRESSIONS] + TEMPLATES:
        raised = None
        try:
            text = env.from_string(template).render(**VARIABLES)
            text.encode()
            cases.append({"template": template, "text": text})
        except jinja2.exceptions.TemplateError as error:
            raised = error.message if type(error) is jinja2.exceptions.TemplateError else None
            cases.append({"template": template, "error": raised or ""})
        except Exception:  # a Python error of the expression itself
            cases.append({"template": template, "error": ""})
    assert not any(" at 0x" in case.get("text", "") for case in cases), "an address would differ from run to run"
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"variables": ' + json.dumps(VARIABLES, ensure_ascii=False) + ',\n"cases": [\n')
        file.write(",\n".join(json.dumps(case, ensure_ascii=False) for case in cases))
        file.write("\n]}\n")
    print(len(cases), "cases,", sum("error" in case for case in cases), "of them errors")


if __name__ == "__main__":
    main()
