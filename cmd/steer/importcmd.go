package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/internal/importer"
	"steerpoint/internal/importer/gdnsd"
	"steerpoint/internal/importer/octodns"
	"steerpoint/internal/importer/route53"
	"steerpoint/internal/importer/tree"
	"steerpoint/internal/importer/zonefile"
)

// importFlags are what every import has.
type importFlags struct {
	to, zone string
	ns       []string
	strict   bool
}

func (a *app) importCommand() *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import gdnsd|octodns|route53|zonefile INPUT",
		Short: "Turn the configuration of another system into resources",
		Long: `Turn the configuration of another system into Service and Zone resources, which ` + "`steer plan`" + ` accepts as they are.

The resources go to standard output, or with --to into a folder. Everything that could not be said the same way goes to
standard error: a line each, with the place in the input, what it was, what was done instead, and what to do by hand.
Nothing is left out silently. docs/import.md says how each format is mapped.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	p := c.PersistentFlags()
	p.StringVar(&f.to, "to", "", "folder to write the resources into, a file each (default: standard output)")
	p.StringArrayVar(&f.ns, "ns", nil, "NAME or NAME=ADDR,ADDR: a name server of every zone, in place of those of the input (repeatable)")
	p.BoolVar(&f.strict, "strict", false, "exit 1 when anything was lost or changed")
	c.AddCommand(a.importGdnsd(&f), a.importOctodns(&f), a.importRoute53(&f), a.importZonefile(&f))
	return c
}

func (a *app) importGdnsd(f *importFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "gdnsd DIR|FILE",
		Short:   "Import a configuration folder of gdnsd, or its config file with the folder zones beside it",
		Example: "  steer import gdnsd /etc/gdnsd --to resources",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.runImport(f, func(o importer.Options) (*importer.Result, error) { return gdnsd.Import(args[0], o) })
		},
	}
}

func (a *app) importOctodns(f *importFlags) *cobra.Command {
	c := &cobra.Command{
		Use:     "octodns FILE|-",
		Short:   "Import a zone file of octoDNS",
		Example: "  steer import octodns config/example.com.yaml --ns ns1.example.net",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.runImport(f, func(o importer.Options) (*importer.Result, error) { return octodns.Import(args[0], a.in, o) })
		},
	}
	c.Flags().StringVar(&f.zone, "zone", "", "name of the zone (default: the name of the file without .yaml)")
	return c
}

func (a *app) importRoute53(f *importFlags) *cobra.Command {
	var files route53.Files
	c := &cobra.Command{
		Use:   "route53 FILE|-",
		Short: "Import the record sets of a hosted zone of Route 53",
		Example: "  aws route53 list-resource-record-sets --hosted-zone-id ID > zone.json\n" +
			"  aws route53 list-health-checks > checks.json\n" +
			"  steer import route53 zone.json --health-checks checks.json",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			files.RecordSets = args[0]
			return a.runImport(f, func(o importer.Options) (*importer.Result, error) { return route53.Import(files, a.in, o) })
		},
	}
	c.Flags().StringVar(&f.zone, "zone", "", "name of the zone (default: that of the SOA record set)")
	c.Flags().StringVar(&files.HealthChecks, "health-checks", "", "file with the output of list-health-checks")
	c.Flags().StringArrayVar(&files.CIDRBlocks, "cidr-blocks", nil, "file with the output of list-cidr-blocks (repeatable)")
	return c
}

func (a *app) importZonefile(f *importFlags) *cobra.Command {
	c := &cobra.Command{
		Use:     "zonefile FILE|-",
		Short:   "Import a zone file, as BIND, NSD, Knot and PowerDNS read it",
		Example: "  steer import zonefile /var/named/example.com.zone --ns ns1.example.net",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.runImport(f, func(o importer.Options) (*importer.Result, error) { return zonefile.Import(args[0], a.in, o) })
		},
	}
	c.Flags().StringVar(&f.zone, "zone", "", "name of the zone (default: that of the SOA record, or of the file)")
	return c
}

// runImport runs one import and writes what it made and what was lost.
func (a *app) runImport(f *importFlags, run func(importer.Options) (*importer.Result, error)) error {
	o := importer.Options{Zone: f.zone}
	for _, text := range f.ns {
		ns, err := importer.ParseNS(text)
		if err != nil {
			return fault.Usage("--ns: "+err.Error(), "write --ns NAME or --ns NAME=ADDR,ADDR")
		}
		o.NS = append(o.NS, ns)
	}
	r, err := run(o)
	if err != nil {
		return importFault(err)
	}
	if err := a.writeImport(f, r); err != nil {
		return err
	}
	if f.strict && len(r.Notes) > 0 {
		return fault.NotSo()
	}
	return nil
}

func importFault(err error) error {
	var e *fault.Error
	var p *tree.Problem
	var file *fs.PathError
	switch {
	case errors.Is(err, importer.ErrInvalid):
		e = &fault.Error{Exit: fault.ExitNotSo, Code: "IMPORT_INVALID", What: importer.ErrInvalid.Error(), Why: err.Error(), Do: "this is a mistake of steer, not of your input: report it with the part of the input that is named"}
	case errors.As(err, &p):
		e = fault.BadInput("IMPORT_INPUT", "the input cannot be imported", err.Error(), "")
	case errors.As(err, &file):
		e = fault.BadInput("FILE_UNREADABLE", "cannot read "+file.Path, err.Error(), "")
	default:
		e = fault.BadInput("FILE_UNREADABLE", "the input cannot be read", err.Error(), "")
	}
	e.Err = err
	return e
}

func (a *app) writeImport(f *importFlags, r *importer.Result) error {
	if a.output != "" {
		return a.encodeImport(r)
	}
	for _, n := range r.Notes {
		a.progress("%s", n)
	}
	if f.to == "" {
		if err := r.Write(a.out); err != nil {
			return err
		}
	} else if err := writeFolder(f.to, r); err != nil {
		return err
	}
	a.progress("%d resources; of the values of the input %d are translated and %d on the list above, which has %d entries", len(r.Docs), r.Translated, r.Listed, len(r.Notes))
	return nil
}

// encodeImport writes resources and losses as one value for programs.
func (a *app) encodeImport(r *importer.Result) error {
	out := struct {
		Resources  []json.RawMessage `json:"resources"`
		Losses     []importer.Note   `json:"losses"`
		Translated int               `json:"translated"`
		Listed     int               `json:"listed"`
	}{[]json.RawMessage{}, r.Notes, r.Translated, r.Listed}
	for i := range r.Docs {
		b, err := json.Marshal(r.Docs[i].Resource)
		if err != nil {
			return fmt.Errorf("output: %w", err)
		}
		out.Resources = append(out.Resources, b)
	}
	if out.Losses == nil {
		out.Losses = []importer.Note{}
	}
	return a.encode(out)
}

// writeFolder writes a file a resource. It writes none when one of them is there already: it may have been edited.
func writeFolder(dir string, r *importer.Result) error {
	fail := func(err error) error {
		e := fault.BadInput("IMPORT_TARGET", "the resources cannot be written into "+dir, err.Error(), "give a folder that has none of these files")
		e.Err = err
		return e
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail(err)
	}
	for i := range r.Docs {
		if _, err := os.Lstat(filepath.Join(dir, r.Docs[i].File())); !errors.Is(err, fs.ErrNotExist) {
			return fail(fmt.Errorf("%s is there already", r.Docs[i].File()))
		}
	}
	for i := range r.Docs {
		if err := writeNew(filepath.Join(dir, r.Docs[i].File()), r.Docs[i].YAML); err != nil {
			for j := range i { // a part of an import is none, and would be in the way of the next try
				err = errors.Join(err, os.Remove(filepath.Join(dir, r.Docs[j].File())))
			}
			return fail(err)
		}
	}
	return nil
}

func writeNew(path string, data []byte) error {
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil {
		err = errors.Join(err, os.Remove(path)) // half a file may be a valid one
	}
	return err
}
