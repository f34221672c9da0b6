package geo

import (
	"fmt"
	"strings"
)

// The codes of an Error.
const (
	CodeRead          = "GEO_READ"         // the file cannot be read
	CodeTooLarge      = "GEO_TOO_LARGE"    // the file is larger than we load
	CodeEmpty         = "GEO_EMPTY"        // the file has no entry we can use
	CodeFormat        = "GEO_FORMAT"       // none of the formats we read
	CodeDamaged       = "GEO_DAMAGED"      // an ipdb or ip2region file that is damaged or cut short
	CodeFields        = "GEO_FIELDS"       // an ipdb, ip2region or CSV file without a field we know
	CodeCSVLine       = "GEO_CSV_LINE"     // a line of a CSV list that cannot be used
	CodeMMDB          = "GEO_MMDB_DAMAGED" // an mmdb whose metadata, tree or data is damaged or cut short
	CodeLayout        = "GEO_MMDB_LAYOUT"  // an mmdb whose records have no field we know
	CodeListLine      = "GEO_LIST_LINE"    // a line of a prefix list is not understood
	CodeListTwice     = "GEO_LIST_TWICE"   // a prefix list names a prefix twice
	CodeTooManyScopes = "GEO_SCOPES"       // a scope set larger than a table can hold
	CodeTable         = "GEO_TABLE"        // a binary table is damaged or of an unknown version
	CodeBuiltin       = "GEO_BUILTIN"      // the built-in country table is damaged: a bad build
)

// Error is one thing wrong with a source or a table.
type Error struct {
	Code string
	File string // path or name of the source; "" for a table
	Line int    // of a list, from 1; 0: the whole file
	Msg  string // what is wrong and what to do
	Err  error  // the cause, or nil
}

// Error says file, line, what is wrong, and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
		if e.Line > 0 {
			fmt.Fprintf(&b, "%d:", e.Line)
		}
		b.WriteByte(' ')
	}
	b.WriteString(e.Msg)
	if e.Err != nil {
		fmt.Fprintf(&b, " (%v)", e.Err)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
