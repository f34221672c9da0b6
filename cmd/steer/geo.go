package main

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/geo"
)

func (a *app) geoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "geo",
		Short: "Look at geo data, and import more",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.geoLookupCommand(), a.geoImportCommand())
	return c
}

func (a *app) geoLookupCommand() *cobra.Command {
	var dbs, lists []string
	var all bool
	c := &cobra.Command{
		Use:   "lookup ADDR...",
		Short: "Say where an address is, how wide the block of that place is, and which source says what",
		Long: `Say where an address is, how wide the block of that place is, and which source says what: field by field, with the
stable id that scopes are compared by, and its English and Chinese names. Files are found out by their content: mmdb,
ipdb, ip2region (.db and .xdb), CSV of address ranges, prefix lists.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.geoLookup(geo.Config{Databases: dbs, Lists: lists}, args, all)
		},
	}
	c.Flags().StringArrayVar(&dbs, "db", nil, "data file, before the built-in country table (repeatable, the most preferred first)")
	c.Flags().StringArrayVar(&lists, "list", nil, "prefix list, before every database (repeatable)")
	c.Flags().BoolVar(&all, "all", false, "also what each source says by itself")
	return c
}

func (a *app) geoLookup(cfg geo.Config, args []string, all bool) error {
	addrs := make([]netip.Addr, len(args))
	for i, s := range args {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return fault.Usage(fmt.Sprintf("%q is not an IP address", s), "")
		}
		addrs[i] = addr.WithZone("")
	}
	db, err := geo.Open(cfg)
	if err != nil {
		e := fault.BadInput("GEO_DATA", "the geo data cannot be read", err.Error(), "")
		e.Err = err
		return e
	}
	results := make([]geo.Result, len(addrs))
	for i, addr := range addrs {
		if all {
			results[i] = db.LookupAll(addr)
		} else {
			results[i] = db.Lookup(addr)
		}
	}
	return a.show(results, func(w io.Writer, p text.Painter) {
		var t text.Table
		t.Row("ADDRESS", "PLACE", "BLOCK", "SOURCE")
		for _, r := range results {
			t.Row(r.Addr, place(r), r.Prefix, r.Source)
		}
		t.Write(w, p, "")
		for _, r := range results {
			geoFields(w, p, r)
		}
		for _, s := range db.Sources() {
			fmt.Fprintln(w, p.Paint(text.Faint, "source "+s.Name+": "+sourceLine(s)))
		}
	})
}

// geoFields shows who said what of an address.
func geoFields(w io.Writer, p text.Painter, r geo.Result) {
	if len(r.Fields) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", r.Addr)
	var t text.Table
	t.Row("FIELD", "ID", "ENGLISH", "CHINESE", "SAID BY")
	for _, f := range r.Fields {
		by := f.Source
		if f.Via != "" {
			by += " (" + f.Via + ")"
		}
		t.Row(f.Name, f.Value, f.English, f.Chinese, by)
	}
	t.Write(w, p, "  ")
	for _, o := range r.All {
		fmt.Fprintf(w, "  %s says %s\n", o.Source, o.Place)
	}
}

func place(r geo.Result) string {
	var parts []string
	for _, f := range r.Fields {
		parts = append(parts, f.Name+"="+f.Value)
	}
	if len(parts) == 0 {
		return "not known"
	}
	s := strings.Join(parts, " ")
	if r.Inside.IsValid() {
		s += " (as " + r.Inside.String() + ")"
	}
	return s
}

func sourceLine(s geo.Info) string {
	line := s.Kind
	if s.Type != "" {
		line += " " + s.Type
	}
	if !s.Built.IsZero() {
		line += ", made on " + s.Built.Format(time.DateOnly)
	}
	if s.Licence != "" {
		line += ", " + s.Licence
	}
	if s.Overlaps > 0 {
		line += fmt.Sprintf(", %d ranges that overlap the one before", s.Overlaps)
	}
	return line
}
