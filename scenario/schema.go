package scenario

import _ "embed"

//go:generate go test -run "UpToDate" . -update

//go:embed schema.json
var schema string

// Schema returns the JSON Schema (draft 2020-12) of a scenario file, for
// editors. What depends on several fields is left to Load.
func Schema() []byte { return []byte(schema) }
