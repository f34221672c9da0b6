package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steerpoint/spec/internal/doctree"
)

// LoadPath reads the resources of a file, of a folder and all below it, or of standard input ("-").
//
// In a folder *.yaml, *.yml and *.json are read in the order of their paths; files and folders whose name starts with
// a dot are left out; links are followed, each folder once. A file that cannot be read is an error like any other. The
// errors are those of Parse and of Set.Check(Partial); the set holds what has none of its own.
func LoadPath(path string) (*Set, Errors) {
	return loadPath(path, os.Stdin)
}

func loadPath(path string, stdin io.Reader) (*Set, Errors) {
	l := &loader{visited: map[string]bool{}}
	if path == "-" {
		l.stream("stdin", stdin)
	} else {
		l.path(path, true)
	}
	set := NewSet(l.docs)
	errs, _ := set.Check(Partial)
	errs = append(l.errs, errs...)
	errs.sort()
	return set, errs
}

type loader struct {
	visited map[string]bool // real paths of folders and files read
	docs    []Resource
	errs    Errors
}

func (l *loader) fail(file, problem, allowed string) {
	l.errs = append(l.errs, Error{Finding{Code: CodeUnreadable, File: file, Problem: problem, Allowed: allowed}})
}

// path reads a file or a folder. named is true for what the operator named, which is read whatever its name.
func (l *loader) path(path string, named bool) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		l.fail(path, "cannot be read: "+reason(err), "")
		return
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		l.fail(path, "cannot be read: "+reason(err), "")
	case l.visited[real]:
	case info.IsDir():
		l.visited[real] = true
		l.folder(path, named)
	case !named && !isResourceFile(path):
	case !info.Mode().IsRegular() && !named:
		l.fail(path, "is not a regular file", "")
	default:
		l.visited[real] = true
		l.file(path)
	}
}

func (l *loader) folder(path string, named bool) {
	entries, err := os.ReadDir(path)
	if err != nil {
		l.fail(path, "cannot be read: "+reason(err), "")
		return
	}
	before := len(l.visited)
	for _, e := range entries { // sorted by name
		if name := e.Name(); !strings.HasPrefix(name, ".") && (isResourceFile(name) || e.IsDir() || e.Type()&os.ModeSymlink != 0) {
			l.path(filepath.Join(path, name), false)
		}
	}
	if named && len(l.visited) == before && len(l.errs) == 0 {
		l.fail(path, "holds no resource file", "files named *.yaml, *.yml or *.json")
	}
}

func isResourceFile(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name)))
}

func (l *loader) file(path string) {
	f, err := os.Open(path)
	if err != nil {
		l.fail(path, "cannot be read: "+reason(err), "")
		return
	}
	defer f.Close()
	l.stream(path, f)
}

// stream reads one more byte than is allowed, so that Parse can tell.
func (l *loader) stream(name string, r io.Reader) {
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(r, doctree.MaxBytes+1)); err != nil {
		l.fail(name, "cannot be read: "+reason(err), "")
		return
	}
	docs, errs := Parse(name, b.Bytes())
	l.docs, l.errs = append(l.docs, docs...), append(l.errs, errs...)
	if len(docs) == 0 && len(errs) == 0 && name == "stdin" {
		l.fail(name, "holds no resource", "")
	}
}

// reason is the cause without the path, which the finding names already.
func reason(err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return fmt.Sprint(pe.Err)
	}
	return err.Error()
}
