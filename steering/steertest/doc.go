// Package steertest reads the timeline language and replays it against the decision core.
//
// A timeline is a txtar file: lines of what happened and of what is expected, then the resources as YAML sections.
// The same language serves the tests of the core, `steer replay` for an operator who asks "what would have happened",
// and the export of recorded history. The language is specified in the design page on decisions, section 8, and in
// docs/timeline.md. Beyond the specification it knows:
//
//	epoch RFC3339                                the wall time of time 0, for schedules; default 2026-01-01T00:00:00Z
//	TIME POINTS edge@address ok|fail ...         one address of an edge; a plain edge means all of its addresses
//	freeze TIME SERVICE[/RULE] [for DURATION]    no automatic move of these rules
//	expect-verdict TIME RULE edge@address ...    the verdict of one address
//
// The package never reads YAML itself: a Loader turns a section into rule configurations, so that the core's tests,
// the command and a private experiment can each bring their own. Nothing here reads a clock or a file; the same
// timeline always gives the same switches.
package steertest
