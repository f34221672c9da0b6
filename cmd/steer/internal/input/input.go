// Package input reads the resource files an operator names on the command line.
package input

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/control/api"
)

// maxFile bounds one file: a million-line service is some 30 MiB, and a device or a log given by mistake ends here.
const maxFile = 64 << 20

// Read gives the sources named by paths: files, folders (every .yaml, .yml and .json below them, by name; hidden ones
// are left out) and "-" for in.
func Read(ctx context.Context, paths []string, in io.Reader) ([]api.Source, error) {
	if len(paths) == 0 {
		return nil, fault.Usage("no resources were given", "name a file, a folder, or - for standard input, with -f")
	}
	var out []api.Source
	for _, p := range paths {
		files, err := expand(p)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			content, err := readOne(ctx, f, in)
			if err != nil {
				return nil, unreadable(f, err)
			}
			out = append(out, api.Source{File: name(f), Content: content})
		}
	}
	return out, nil
}

func name(file string) string {
	if file == "-" {
		return "stdin"
	}
	return file
}

func expand(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !st.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p != path && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(p)):
			if st, err := os.Stat(p); err == nil && !st.Mode().IsRegular() {
				return fmt.Errorf("%s is no regular file", p)
			}
			files = append(files, p)
		}
		return nil
	})
	if err != nil {
		return nil, unreadable(path, err)
	}
	if len(files) == 0 {
		return nil, fault.BadInput("NO_RESOURCES", "the folder "+path+" holds no resources", "no .yaml, .yml or .json file is in it", "")
	}
	return files, nil
}

func readOne(ctx context.Context, path string, in io.Reader) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := readAll(path, in)
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func readAll(path string, in io.Reader) (string, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	return string(b), err
}

func unreadable(path string, err error) error {
	e := fault.BadInput("FILE_UNREADABLE", "cannot read "+name(path), err.Error(), "")
	e.Err = err
	return e
}
