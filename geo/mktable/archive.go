package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"steerpoint/geo/internal/countryfile"
	"steerpoint/geo/internal/mmdb"
	"steerpoint/geo/internal/ranges"
)

// npmPackage is what we need of an npm archive.
type npmPackage struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	License string `json:"license"`
	// mmdb is the file with both families: the largest .mmdb of the archive.
	mmdb []byte
}

// credit is asked for by the data's upstream (package README, NRO_LICENSE).
const credit = "WHOIS data by the Number Resource Organization, nro.net, CC BY 4.0"

// maxMember bounds one file of the archive, in bytes.
const maxMember = 256 << 20

func readArchive(r io.Reader) (*npmPackage, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	pkg := &npmPackage{}
	for files := tar.NewReader(z); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		name := path.Base(header.Name)
		if name != "package.json" && !strings.HasSuffix(name, ".mmdb") || header.Size > maxMember {
			continue
		}
		data, err := io.ReadAll(files)
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", header.Name, err)
		}
		if name == "package.json" {
			if err := json.Unmarshal(data, pkg); err != nil {
				return nil, fmt.Errorf("package.json: %w", err)
			}
		} else if len(data) > len(pkg.mmdb) {
			pkg.mmdb = data
		}
	}
	if pkg.mmdb == nil || pkg.Version == "" || pkg.License == "" {
		return nil, errors.New("no package.json with version and license, or no mmdb, inside")
	}
	return pkg, nil
}

// dayInVersion finds the day in versions such as 2.3.2026061719: year, month, day, hour.
var dayInVersion = regexp.MustCompile(`\.(20\d{6})\d*$`)

// dateOf is the day of the data: in the version, or else the mmdb's build time.
func dateOf(pkg *npmPackage, built time.Time) time.Time {
	if m := dayInVersion.FindStringSubmatch(pkg.Version); m != nil {
		if day, err := time.Parse("20060102", m[1]); err == nil {
			return day
		}
	}
	return built.UTC().Truncate(24 * time.Hour)
}

func makeTable(pkg *npmPackage) (*countryfile.Table, int, error) {
	f, err := mmdb.Read(pkg.mmdb)
	if err != nil {
		return nil, 0, fmt.Errorf("mmdb: %w", err)
	}
	t := &countryfile.Table{
		Date: dateOf(pkg, f.Built), Source: pkg.Name + " " + pkg.Version, Licence: pkg.License, Credit: credit,
	}
	for _, p := range f.Places {
		if p.Country != "" {
			t.Countries = append(t.Countries, p.Country)
		}
	}
	slices.Sort(t.Countries)
	t.Countries = slices.Compact(t.Countries)
	value := func(id uint32) uint16 {
		if c := f.Places[id].Country; c != "" {
			i, _ := slices.BinarySearch(t.Countries, c)
			return uint16(i) + 1
		}
		return 0
	}
	t.V4, t.V6 = scrub(ranges.Map(f.V4, value), ranges.Map(f.V6, value))
	return t, f.Strange, nil
}
