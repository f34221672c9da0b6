// Package spec holds what the operator writes: the resources Service, Zone, Override, Notifier, Secret, RuleSet and
// Certificate.
//
// It parses YAML and JSON strictly, fills in defaults, validates one resource and a whole set of them, shows
// differences in the operator's words, generates the JSON Schema of each kind, and compiles a Service into the rules
// the decision core runs. It reads text it is handed and touches nothing else of the world.
//
// Invariants:
//   - the struct tags of a kind are the one source of its fields: names, defaults, bounds, words, the JSON Schema and
//     docs/resources.md all come from them (see fields.go);
//   - a Resource that Parse returned holds every fixed default; a field whose default depends on others is zero until
//     an accessor (Service.RuleTTL and so on) or Resource.Effective fills it in;
//   - writing a Resource, minimal or full, and parsing it again gives an equal one, but for the values of a Secret, which
//     are never written: what stands in their place is refused when it is read;
//   - bad input gives Errors, all of a file at once, and never a panic.
//
// It is larger than most packages here because the kinds, their checks and their texts are one vocabulary; reading of
// bytes and of names stand apart in internal/doctree and internal/names.
package spec
