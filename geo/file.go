package geo

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"steerpoint/geo/internal/mmdb"
)

// maxFile bounds a file we load, in bytes: four times the largest free city database.
const maxFile = 1 << 30

// ReadFile loads a source from a file: an mmdb, known by its marker, else a prefix list. The file is read whole and
// closed, never mapped, so it may be replaced or overwritten at any time; one that changes while it is read fails its
// checks or is read whole next time. Errors are *Error, or Errors of a list.
func ReadFile(path string) (*Source, error) {
	data, err := readWhole(path)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(data, []byte(mmdb.Marker)) {
		return ParseMMDB(path, data)
	}
	if what := otherFormat(data); what != "" {
		return nil, &Error{Code: CodeFormat, File: path, Msg: what + "; an mmdb or a text list of prefixes is wanted"}
	}
	return ParseList(path, data)
}

// otherFormat names a format that is neither an mmdb nor text, or returns "".
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
	if len(data) > 5 && data[4] == '{' {
		return "an ipdb file, which is not read yet"
	}
	return "a binary file without the marker of an mmdb: another format, or an mmdb that is cut short"
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
	case len(f.Places) == 1:
		return nil, &Error{Code: CodeEmpty, File: name, Msg: fmt.Sprintf("the mmdb (%s) knows no place", f.Type)}
	}
	return &Source{
		info: Info{
			Name: name, Kind: KindMMDB, Type: f.Type, Layout: string(f.Layout), Built: f.Built, Strange: f.Strange,
			Runs4: f.V4.Len(), Runs6: f.V6.Len(), SHA256: digest(data),
		},
		places: f.Places, v4: f.V4, v6: f.V6,
	}, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
