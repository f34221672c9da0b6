package geo

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"steerpoint/geo/internal/csvfile"
	"steerpoint/geo/internal/ip2region"
	"steerpoint/geo/internal/ipdb"
	"steerpoint/geo/internal/mmdb"
	"steerpoint/geo/internal/ranges"
	"steerpoint/steering/scope"
)

// maxFile bounds a file we load, in bytes: four times the largest free city database.
const maxFile = 1 << 30

// ReadFile loads a source from a file, whose format is found from its content: mmdb, ipdb, ip2region, CSV of ranges,
// or a prefix list. The file is read whole and closed, never mapped, so it may be replaced or overwritten at any time;
// one that changes while it is read fails its checks or is read whole next time. Errors are *Error, or Errors of a list.
func ReadFile(path string) (*Source, error) {
	data, err := readWhole(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse loads a source from the content of a file, as ReadFile does. name is for messages. data is not kept.
func Parse(name string, data []byte) (*Source, error) {
	switch {
	case bytes.Contains(data, []byte(mmdb.Marker)):
		return ParseMMDB(name, data)
	case ipdb.Is(data):
		return parseIPDB(name, data)
	case ip2region.Is(data):
		return parseIP2Region(name, data)
	}
	if what := otherFormat(data); what != "" {
		return nil, &Error{Code: CodeFormat, File: name, Msg: what + "; an mmdb, ipdb or ip2region file, a CSV of ranges or a text list of prefixes is wanted"}
	}
	if csvfile.Is(data) {
		return parseCSV(name, data)
	}
	return ParseList(name, data)
}

// otherFormat names a format that we do not read, or returns "".
func otherFormat(data []byte) string {
	for _, f := range []struct{ magic, what string }{
		{"\x1f\x8b", "a gzip file; unpack it"},
		{"PK\x03\x04", "a zip archive; unpack it"},
		{"\xfd7zXZ", "an xz file; unpack it"},
	} {
		if bytes.HasPrefix(data, []byte(f.magic)) {
			return f.what
		}
	}
	if bytes.IndexByte(data, 0) < 0 {
		return ""
	}
	return "a binary file without the marks of a format we read: another format, or a file that is cut short"
}

func readWhole(path string) ([]byte, error) {
	stat, err := os.Stat(path) // before opening: opening a pipe would wait for a writer
	switch {
	case err != nil:
		return nil, &Error{Code: CodeRead, File: path, Msg: "cannot read the file", Err: errors.Unwrap(err)}
	case !stat.Mode().IsRegular():
		return nil, &Error{Code: CodeRead, File: path, Msg: "not a regular file"}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{Code: CodeRead, File: path, Msg: "cannot open the file", Err: errors.Unwrap(err)}
	}
	defer f.Close()
	data := make([]byte, 0, min(stat.Size(), maxFile)+bytes.MinRead)
	buf := bytes.NewBuffer(data)
	_, err = buf.ReadFrom(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, &Error{Code: CodeRead, File: path, Msg: "cannot read the file", Err: err}
	case buf.Len() > maxFile:
		return nil, &Error{Code: CodeTooLarge, File: path, Msg: fmt.Sprintf("larger than %d bytes", maxFile)}
	case buf.Len() == 0:
		return nil, &Error{Code: CodeEmpty, File: path, Msg: "the file is empty"}
	}
	return buf.Bytes(), nil
}

// ParseMMDB loads a MaxMind DB. The error is an *Error with CodeMMDB, CodeLayout or CodeEmpty. data is not kept.
func ParseMMDB(name string, data []byte) (*Source, error) {
	f, err := mmdb.Read(data)
	switch {
	case errors.Is(err, mmdb.ErrLayout):
		return nil, &Error{Code: CodeLayout, File: name, Msg: "an mmdb we cannot use", Err: err}
	case err != nil:
		return nil, &Error{Code: CodeMMDB, File: name, Msg: "the mmdb cannot be used", Err: err}
	}
	info := Info{Name: name, Kind: KindMMDB, Type: f.Type, Layout: string(f.Layout), Built: f.Built, Strange: f.Strange}
	return sourceOf(info, data, f.Places, f.V4, f.V6)
}

func parseIPDB(name string, data []byte) (*Source, error) {
	f, err := ipdb.Read(data)
	if err != nil {
		return nil, &Error{Code: codeOf(err, ipdb.ErrLayout), File: name, Msg: "the ipdb cannot be used", Err: err}
	}
	info := Info{Name: name, Kind: KindIPDB, Layout: strings.Join(f.Fields, " "), Built: f.Built, Strange: f.Strange}
	return sourceOf(info, data, f.Set.Places, f.V4, f.V6)
}

func parseIP2Region(name string, data []byte) (*Source, error) {
	f, err := ip2region.Read(data)
	if err != nil {
		return nil, &Error{Code: codeOf(err, ip2region.ErrLayout), File: name, Msg: "the ip2region file cannot be used", Err: err}
	}
	info := Info{Name: name, Kind: KindIP2Region, Type: f.Format, Layout: string(f.Layout), Built: f.Built, Strange: f.Strange}
	return sourceOf(info, data, f.Set.Places, f.V4, f.V6)
}

func codeOf(err, layout error) string {
	if errors.Is(err, layout) {
		return CodeFields
	}
	return CodeDamaged
}

func parseCSV(name string, data []byte) (*Source, error) {
	f, err := csvfile.Read(data)
	var line *csvfile.LineError
	switch {
	case errors.As(err, &line):
		return nil, &Error{Code: CodeCSVLine, File: name, Line: line.Line, Msg: line.Err.Error()}
	case err != nil:
		return nil, &Error{Code: CodeFields, File: name, Msg: "the CSV of ranges cannot be used", Err: err}
	}
	info := Info{Name: name, Kind: KindCSV, Layout: strings.Join(f.Columns, ","), Strange: f.Strange, Overlaps: f.Overlaps}
	return sourceOf(info, data, f.Set.Places, f.V4, f.V6)
}

// sourceOf makes the source of what a reader found.
func sourceOf(info Info, data []byte, places []scope.Place, v4 ranges.Runs[ranges.V4, uint32], v6 ranges.Runs[ranges.V6, uint32]) (*Source, error) {
	if len(places) == 1 {
		what := info.Kind
		if info.Type != "" {
			what += ", " + info.Type
		}
		return nil, &Error{Code: CodeEmpty, File: info.Name, Msg: "the file (" + what + ") knows no place"}
	}
	info.Runs4, info.Runs6, info.SHA256 = v4.Len(), v6.Len(), digest(data)
	return &Source{info: info, places: places, v4: v4, v6: v6}, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
