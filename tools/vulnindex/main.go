// Command vulnindex turns the vulnerability records of the Go module golang.org/x/vulndb into a folder that
// govulncheck reads with -db file://FOLDER, so that the check needs no network beyond the module proxy.
//
// Usage: vulnindex -records DIR -out DIR, where -records is the module's data/osv folder.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// record is the part of an OSV entry the index is made of; the entry itself is copied byte for byte.
type record struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
	Aliases  []string  `json:"aliases"`
	Affected []struct {
		Package struct {
			Name string `json:"name"`
		} `json:"package"`
	} `json:"affected"`
}

// The three index files, as the database's own HTTP service lays them out (go.dev/security/vuln/database).
type (
	database struct {
		Modified time.Time `json:"modified"`
	}
	moduleVuln struct {
		ID       string    `json:"id"`
		Modified time.Time `json:"modified"`
	}
	module struct {
		Path  string       `json:"path"`
		Vulns []moduleVuln `json:"vulns"`
	}
	vuln struct {
		ID       string    `json:"id"`
		Modified time.Time `json:"modified"`
		Aliases  []string  `json:"aliases,omitempty"`
	}
)

func main() {
	records := flag.String("records", "", "`folder` of OSV records, one JSON file each")
	out := flag.String("out", "", "`folder` to write")
	flag.Parse()
	if *records == "" || *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	n, err := build(*records, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vulnindex:", err)
		os.Exit(1)
	}
	fmt.Printf("vulnindex: %d records in %s\n", n, *out)
}

// build writes the folder out from the records and says how many there were. The fixed versions of the module
// index are left out: they only spare a client the reading of records, and the client copes without them.
func build(records, out string) (int, error) {
	files, err := filepath.Glob(filepath.Join(records, "*.json"))
	if err != nil {
		return 0, fmt.Errorf("records: %w", err)
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("records: no JSON file in %s", records)
	}
	for _, d := range []string{"ID", "index"} {
		if err := os.MkdirAll(filepath.Join(out, d), 0o755); err != nil {
			return 0, fmt.Errorf("output: %w", err)
		}
	}
	var db database
	modules := map[string]*module{}
	var vulns []vuln
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return 0, fmt.Errorf("record: %w", err)
		}
		var r record
		if err := json.Unmarshal(data, &r); err != nil {
			return 0, fmt.Errorf("record %s: %w", filepath.Base(f), err)
		}
		if r.ID+".json" != filepath.Base(f) {
			return 0, fmt.Errorf("record %s: its id is %q", filepath.Base(f), r.ID)
		}
		if err := os.WriteFile(filepath.Join(out, "ID", filepath.Base(f)), data, 0o644); err != nil {
			return 0, fmt.Errorf("record copy: %w", err)
		}
		if r.Modified.After(db.Modified) {
			db.Modified = r.Modified
		}
		vulns = append(vulns, vuln{r.ID, r.Modified, r.Aliases})
		addToModules(modules, r)
	}
	return len(files), errors.Join(
		writeJSON(filepath.Join(out, "index", "db.json"), db),
		writeJSON(filepath.Join(out, "index", "modules.json"), sorted(modules)),
		writeJSON(filepath.Join(out, "index", "vulns.json"), vulns),
	)
}

// addToModules files r under every module it affects, once each: a record may list a module several times.
func addToModules(modules map[string]*module, r record) {
	for _, a := range r.Affected {
		m := modules[a.Package.Name]
		if m == nil {
			m = &module{Path: a.Package.Name}
			modules[m.Path] = m
		}
		v := moduleVuln{r.ID, r.Modified}
		if !slices.Contains(m.Vulns, v) {
			m.Vulns = append(m.Vulns, v)
		}
	}
}

func sorted(modules map[string]*module) []*module {
	return slices.SortedFunc(maps.Values(modules), func(a, b *module) int { return cmp.Compare(a.Path, b.Path) })
}

func writeJSON(file string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("index %s: %w", filepath.Base(file), err)
	}
	return os.WriteFile(file, data, 0o644)
}
