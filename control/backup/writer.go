package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// partBytes is about how large a part of the store is before it is compressed.
const partBytes = 4 << 20

// Writer writes a backup. It is not for several goroutines.
type Writer struct {
	zip      *gzip.Writer
	tar      *tar.Writer
	created  time.Time
	members  []Member
	manifest *Manifest

	part  bytes.Buffer // of the store, not written yet
	parts int
}

// NewWriter begins a backup on w. The manifest is filled in by the caller until Close; Header must be set now.
func NewWriter(w io.Writer, m *Manifest) (*Writer, error) {
	m.Format = Format
	zip, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	b := &Writer{zip: zip, tar: tar.NewWriter(zip), created: m.Created, manifest: m}
	return b, b.addJSON(headerName, m.Header)
}

// Add writes a member of exactly size bytes.
func (b *Writer) Add(name string, size int64, r io.Reader) error {
	if !known.MatchString(name) {
		return fmt.Errorf("backup: %q is no name of a member", name)
	}
	sum := sha256.New()
	if err := b.entry(name, size); err != nil {
		return err
	}
	if _, err := io.CopyN(io.MultiWriter(b.tar, sum), r, size); err != nil {
		return fmt.Errorf("backup: %s: %w", name, err)
	}
	b.members = append(b.members, Member{name, size, hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// AddPair adds one key of the store. All of them come one after another.
func (b *Writer) AddPair(p Pair, value []byte) error {
	if utf8.Valid(value) {
		p.Value = string(value)
	} else {
		p.Bytes = value
	}
	line, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("backup: key %s: %w", p.Key, err)
	}
	b.part.Write(line)
	b.part.WriteByte('\n')
	b.manifest.Keys++
	if b.part.Len() < partBytes {
		return nil
	}
	return b.EndStore()
}

// EndStore writes what is left of the store.
func (b *Writer) EndStore() error {
	if b.part.Len() == 0 {
		return nil
	}
	b.parts++
	err := b.Add(fmt.Sprintf("%s%06d.jsonl", storePrefix, b.parts), int64(b.part.Len()), &b.part)
	b.part.Reset()
	return err
}

// Close writes the manifest and ends the file. Without it the backup is none.
func (b *Writer) Close() error {
	b.manifest.Members = b.members
	if err := b.addJSON(manifestName, b.manifest); err != nil {
		return err
	}
	if err := b.tar.Close(); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := b.zip.Close(); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

func (b *Writer) addJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("backup: %s: %w", name, err)
	}
	if err := b.entry(name, int64(len(text))); err != nil {
		return err
	}
	if _, err := b.tar.Write(text); err != nil {
		return fmt.Errorf("backup: %s: %w", name, err)
	}
	return nil
}

func (b *Writer) entry(name string, size int64) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: b.created}
	if err := b.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("backup: %s: %w", name, err)
	}
	return nil
}
