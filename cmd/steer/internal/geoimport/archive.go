package geoimport

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Bounds, in bytes: the largest archive has 64 MB, the largest file in one 71 MB.
const (
	maxArchive = 512 << 20
	maxMember  = 512 << 20
)

// member is one file of an archive.
type member struct {
	name string
	data []byte
}

// unpack gives the wanted files of an npm archive and its licence, or the one file that data are, packed or not; that
// one keeps its name.
func unpack(data []byte, name string, wanted []string) ([]member, string, error) {
	if !bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		return []member{{name, data}}, "", nil
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, "", fmt.Errorf("unpack: %w", err)
	}
	plain, err := limited(z)
	if err != nil {
		return nil, "", fmt.Errorf("unpack: %w", err)
	}
	const magicAt = 257 // of a tar header: "ustar"
	if len(plain) < magicAt+5 || string(plain[magicAt:magicAt+5]) != "ustar" {
		return []member{{strings.TrimSuffix(name, ".gz"), plain}}, "", nil
	}
	return fromTar(plain, wanted)
}

// limited reads up to two of the largest members and a bit.
func limited(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, 2*maxMember+1))
	if err == nil && len(data) > 2*maxMember {
		err = fmt.Errorf("more than %d bytes", 2*maxMember)
	}
	return data, err
}

func fromTar(plain []byte, wanted []string) ([]member, string, error) {
	var found []member
	var names []string
	var about struct {
		License string `json:"license"`
	}
	for files := tar.NewReader(bytes.NewReader(plain)); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, "", fmt.Errorf("unpack: %w", err)
		}
		name := path.Base(header.Name)
		names = append(names, name)
		take := slices.Contains(wanted, name) && !slices.ContainsFunc(found, func(m member) bool { return m.name == name })
		if header.Typeflag != tar.TypeReg || !take && header.Name != "package/package.json" {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(files, maxMember))
		if err != nil {
			return nil, "", fmt.Errorf("unpack %s: %w", name, err)
		}
		if take {
			found = append(found, member{name, data})
		} else if err := json.Unmarshal(data, &about); err != nil {
			about.License = "" // of an odd form; the credit says what matters
		}
	}
	if len(found) < len(wanted) || len(wanted) == 0 {
		return nil, "", fmt.Errorf("the archive has %s, and wanted are %s", strings.Join(names, ", "), strings.Join(wanted, ", "))
	}
	return found, about.License, nil
}
