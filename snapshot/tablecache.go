package snapshot

import (
	"cmp"
	"strings"

	"steerpoint/geo"
	"steerpoint/steering/scope"
)

// TableCache keeps scope tables from one compilation to the next, by scope set: services with equal sets share one.
// Tables of sets no longer used, and all of them when the geo data changes, are dropped. The zero value is ready. It
// must not be used by two compilations at once.
type TableCache struct {
	db       *geo.DB
	tables   map[string]*geo.Table
	used     map[string]*geo.Table
	Compiled int // tables compiled so far; for metrics and tests
}

func (c *TableCache) begin(db *geo.DB) {
	if c.db != db {
		c.db, c.tables = db, nil
	}
	c.used = map[string]*geo.Table{}
}

func (c *TableCache) end() { c.tables, c.used = c.used, nil }

// table is the table of a scope set in the total order.
func (c *TableCache) table(scopes []scope.Scope) (*geo.Table, error) {
	var key strings.Builder
	for i := range scopes {
		key.WriteString(scopes[i].Canonical())
		key.WriteByte('\n')
	}
	if t := c.used[key.String()]; t != nil {
		return t, nil
	}
	t := c.tables[key.String()]
	if t == nil {
		var err error
		if t, err = geo.Compile(cmp.Or(c.db, geo.New()), scopes); err != nil {
			return nil, err
		}
		c.Compiled++
	}
	c.used[key.String()] = t
	return t, nil
}
