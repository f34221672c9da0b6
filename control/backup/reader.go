package backup

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Verify reads a whole backup and says what is in it. The error is ErrDamaged, with what is wrong, ErrNewer, or of the
// reading.
func Verify(r io.Reader) (Manifest, error) {
	return Read(r, func(_ Member, content io.Reader) error {
		_, err := io.Copy(io.Discard, content)
		return err
	})
}

// Read hands every member to f, in order, and returns the manifest. Name and size of the Member are what the file says;
// its checksum is known only at the end, so that nothing counts before Read has returned without an error.
func Read(r io.Reader, f func(m Member, content io.Reader) error) (Manifest, error) {
	in := &source{r: bufio.NewReaderSize(r, 256<<10)}
	m, err := read(in, f)
	if in.err != nil && !errors.Is(in.err, io.EOF) { // not what the file holds: it could not be read
		return Manifest{}, fmt.Errorf("backup: %w", in.err)
	}
	if err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// source remembers an error of the reading, to tell it from damage.
type source struct {
	r   *bufio.Reader
	err error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.note(err)
	return n, err
}

// ReadByte implements io.ByteReader, so that gzip reads no further than its own end.
func (s *source) ReadByte() (byte, error) {
	b, err := s.r.ReadByte()
	s.note(err)
	return b, err
}

func (s *source) note(err error) {
	if err != nil && s.err == nil {
		s.err = err
	}
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// scan is a reading under way.
type scan struct {
	tar     *tar.Reader
	members []Member
	names   map[string]bool
}

func read(in *source, f func(Member, io.Reader) error) (Manifest, error) {
	zip, err := gzip.NewReader(in)
	if err != nil {
		return Manifest{}, damaged("it is no gzip file: %v", err)
	}
	zip.Multistream(false)
	s := &scan{tar: tar.NewReader(zip), names: map[string]bool{}}
	m, err := s.all(f)
	if err != nil {
		return Manifest{}, err
	}
	if _, err := io.Copy(io.Discard, zip); err != nil { // the end of the tar, and gzip's own checksum
		return Manifest{}, damaged("it is cut off, or its checksum differs: %v", err)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return Manifest{}, damaged("something follows its end")
	}
	return m, nil
}

func (s *scan) all(f func(Member, io.Reader) error) (Manifest, error) {
	var head Header
	if err := s.first(&head); err != nil {
		return Manifest{}, err
	}
	for {
		h, err := s.next()
		if err != nil {
			return Manifest{}, err
		}
		if h.Name == manifestName {
			return s.last(h, &head)
		}
		if err := s.member(h, f); err != nil {
			return Manifest{}, err
		}
	}
}

// next is the next entry of the tar. There is one until the manifest was read.
func (s *scan) next() (*tar.Header, error) {
	h, err := s.tar.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, damaged("it ends before its manifest")
	case err != nil:
		return nil, damaged("it is cut off or was changed: %v", err)
	case h.Typeflag != tar.TypeReg || h.Size < 0:
		return nil, damaged("%.100q in it is no file", h.Name)
	}
	return h, nil
}

// first reads the header, which says by which version the rest is to be read.
func (s *scan) first(head *Header) error {
	h, err := s.next()
	if err != nil {
		return err
	}
	if h.Name != headerName {
		return damaged("it begins with %.100q and not with %s: it is no backup of steer", h.Name, headerName)
	}
	if err := s.json(h, head); err != nil {
		return err
	}
	if head.Format > Format {
		return fmt.Errorf("%w: it has format %d, by steer %s; this program reads up to %d", ErrNewer, head.Format, head.Program, Format)
	}
	if head.Format < 1 {
		return damaged("its header has the format %d", head.Format)
	}
	return nil
}

func (s *scan) json(h *tar.Header, v any) error {
	if h.Size > maxJSON {
		return damaged("%s has %d bytes", h.Name, h.Size)
	}
	text, err := io.ReadAll(s.tar)
	if err != nil {
		return damaged("%s is cut off or was changed: %v", h.Name, err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return damaged("%s: %v", h.Name, err)
	}
	return nil
}

func (s *scan) member(h *tar.Header, f func(Member, io.Reader) error) error {
	m := Member{Name: h.Name, Size: h.Size}
	switch {
	case !known.MatchString(m.Name):
		return damaged("%.100q is no name of a member", m.Name)
	case s.names[m.Name] || len(s.members) == maxMembers:
		return damaged("%s is in it twice, or there are too many members", m.Name)
	}
	s.names[m.Name] = true
	sum := sha256.New()
	content := &body{r: io.TeeReader(s.tar, sum)}
	err := f(m, content)
	if content.err != nil { // whatever f makes of it
		return damaged("%s is cut off or was changed: %v", m.Name, content.err)
	}
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, content); err != nil { // what f did not want to read
		return damaged("%s is cut off or was changed: %v", m.Name, err)
	}
	m.SHA256 = hex.EncodeToString(sum.Sum(nil))
	s.members = append(s.members, m)
	return nil
}

// body is a member's content; it remembers an error of the reading, to tell it from one of the writing.
type body struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// last compares what was read with the manifest.
func (s *scan) last(h *tar.Header, head *Header) (Manifest, error) {
	var m Manifest
	if err := s.json(h, &m); err != nil {
		return m, err
	}
	if !m.Created.Equal(head.Created) || m.Format != head.Format {
		return m, damaged("header and manifest are of different backups")
	}
	if len(m.Members) != len(s.members) {
		return m, damaged("it has %d members, its manifest names %d", len(s.members), len(m.Members))
	}
	for i, got := range s.members {
		if want := m.Members[i]; got != want {
			return m, damaged("%s has %d bytes with checksum %s; the manifest says %s, %d bytes, %s", got.Name, got.Size, got.SHA256, want.Name, want.Size, want.SHA256)
		}
	}
	if _, err := s.tar.Next(); !errors.Is(err, io.EOF) {
		return m, damaged("something follows its manifest")
	}
	return m, nil
}

// Pairs hands every key of a part of the store to f.
func Pairs(m Member, content io.Reader, f func(p Pair, value []byte) error) error {
	if m.Size > MaxPart {
		return damaged("%s has %d bytes", m.Name, m.Size)
	}
	text, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		text = rest
		var p Pair
		if err := json.Unmarshal(line, &p); err != nil {
			return damaged("%s: %v", m.Name, err)
		}
		value := p.Bytes
		if value == nil {
			value = []byte(p.Value)
		}
		if err := f(p, value); err != nil {
			return err
		}
	}
	return nil
}
