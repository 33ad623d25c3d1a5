// A library that is no module of ours.
extern "C" __attribute__((visibility("default"))) int some_other_library() { return 1; }
