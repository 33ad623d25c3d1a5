namespace actors {}
