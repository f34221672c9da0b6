package gdnsd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"steerpoint/internal/importer/tree"
)

// files reads below one folder, and no more than tree.MaxBytes of all files together. Nothing outside of the folder is
// read, whatever an include or a link says.
type files struct {
	dir  string // as the operator wrote it, for messages
	root *os.Root
	left int
}

func openFiles(dir string) (*files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &files{dir: dir, root: root, left: tree.MaxBytes}, nil
}

// shown is the name of a file for messages.
func (f *files) shown(name string) string { return filepath.Join(f.dir, name) }

// read gives the content of a regular file; at is what names it.
func (f *files) read(name string, at place) ([]byte, error) {
	bad := func(format string, args ...any) ([]byte, error) {
		return nil, &tree.Problem{File: at.file, Line: at.line, Text: fmt.Sprintf("names "+name+", which "+format, args...)}
	}
	if !filepath.IsLocal(name) {
		return bad("lies outside of %s: copy it there and name it by a relative path", f.dir)
	}
	st, err := f.root.Stat(name)
	switch {
	case err != nil:
		return bad("cannot be read: %v", cause(err))
	case !st.Mode().IsRegular():
		return bad("is no regular file")
	}
	large := &tree.Problem{File: f.shown(name), Line: 1, Text: fmt.Sprintf("makes more than %d MiB with the files before it", tree.MaxBytes>>20), Err: tree.ErrTooLarge}
	if st.Size() > int64(f.left) {
		return nil, large
	}
	file, err := f.root.Open(name)
	if err != nil {
		return bad("cannot be read: %v", cause(err))
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, int64(f.left)+1))
	if err != nil {
		return bad("cannot be read: %v", cause(err))
	}
	if f.left -= len(data); f.left < 0 {
		return nil, large
	}
	return data, nil
}

func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// list gives the files of a folder by name, without hidden ones and folders.
func (f *files) list(dir string) ([]string, error) {
	entries, err := fs.ReadDir(f.root.FS(), dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, path.Join(dir, e.Name()))
		}
	}
	slices.Sort(out)
	return out, nil
}

// expand gives the files an include names: one, those of a folder, or those of a pattern. many says that it may be
// several.
func (f *files) expand(name string, at place) (out []string, many bool, err error) {
	if st, err := f.root.Stat(name); err == nil && st.IsDir() {
		out, err := f.list(name)
		return out, true, err
	}
	if !strings.ContainsAny(name, "*?[") {
		return []string{name}, false, nil
	}
	out, err = fs.Glob(f.root.FS(), name)
	if err == nil && len(out) == 0 {
		err = errors.New("no file matches")
	}
	if err != nil {
		return nil, true, &tree.Problem{File: at.file, Line: at.line, Text: "includes " + name + ": " + err.Error()}
	}
	return out, true, nil
}
