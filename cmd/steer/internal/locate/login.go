package locate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"steerpoint/cmd/steer/internal/fault"
)

// loginVersion is the version of the login file's layout.
const loginVersion = 1

// Login is the server that `steer login` remembered.
type Login struct {
	Server string `json:"server"` // URL
	Token  string `json:"token"`
	// Authority is the certificate that vouches for the server, in PEM; "": those the system trusts do.
	Authority string `json:"authority,omitempty"`
}

type loginFile struct {
	Version int `json:"version"`
	Login
}

// LoginPath is where a login is kept: $XDG_CONFIG_HOME/steerpoint/login.json, or below ~/.config.
func (o Options) LoginPath() (string, error) {
	dir := o.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // the XDG specification: a relative path is to be ignored
		home := o.Env("HOME")
		if home == "" {
			return "", fault.BadInput("LOGIN_UNUSABLE", "no place for a login is known", "neither XDG_CONFIG_HOME nor HOME is set", "set one of them, or use --server and --token")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "steerpoint", "login.json"), nil
}

// Login reads the remembered login; ok is false if there is none.
func (o Options) Login() (l Login, ok bool, err error) {
	path, err := o.LoginPath()
	if err != nil {
		return l, false, nil // nowhere to look
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, false, nil
	}
	bad := func(why string) error {
		return fault.BadInput("LOGIN_UNUSABLE", "the login in "+path+" cannot be used", why, "log in again with `steer login --server URL`, or end it with `steer logout`")
	}
	if err != nil {
		return l, false, bad(err.Error())
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return l, false, bad(fmt.Sprintf("others can read it (mode %04o), and it holds a token", info.Mode().Perm()))
	}
	var f loginFile
	switch err := json.Unmarshal(b, &f); {
	case err != nil:
		return l, false, bad(err.Error())
	case f.Version > loginVersion:
		return l, false, bad("a newer version of the program wrote it")
	case f.Server == "" || f.Token == "":
		return l, false, bad("it names no server, or holds no token")
	}
	if _, err := parse(f.Server); err != nil {
		return l, false, err
	}
	return f.Login, true, nil
}

// SaveLogin remembers a login in the place of any other, for this user's eyes alone. It returns where.
func (o Options) SaveLogin(l Login) (path string, err error) {
	if path, err = o.LoginPath(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return path, fmt.Errorf("login: %w", err)
	}
	b, err := json.MarshalIndent(loginFile{loginVersion, l}, "", "  ")
	if err != nil {
		return path, fmt.Errorf("login: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "login-*.tmp") // mode 0600
	if err != nil {
		return path, fmt.Errorf("login: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error that counts is the first one
		return path, fmt.Errorf("login: %w", err)
	}
	return path, nil
}

// Logout forgets the login; was is false if there was none.
func (o Options) Logout() (path string, was bool, err error) {
	if path, err = o.LoginPath(); err != nil {
		return "", false, err
	}
	switch err := os.Remove(path); {
	case errors.Is(err, fs.ErrNotExist):
		return path, false, nil
	case err != nil:
		return path, false, fmt.Errorf("login: %w", err)
	}
	return path, true, nil
}

// CheckURL says what is wrong with the URL of a server.
func CheckURL(server string) error {
	_, err := parse(server)
	return err
}

// remembered fills in what a login knows of a server that was named; its token goes to no other.
func (o Options) remembered(s *Server) {
	l, ok, err := o.Login()
	if err != nil || !ok || l.Server != strings.TrimRight(s.URL, "/") { // a login that cannot be used says so where it is needed
		return
	}
	s.Token = first(s.Token, l.Token)
	if s.CA == "" {
		s.Authority = l.Authority
	}
}

// fromLogin is the server of the login, with what was given besides.
func (o Options) fromLogin(s Server) (Server, bool, error) {
	l, ok, err := o.Login()
	if err != nil || !ok {
		return s, false, err
	}
	s.URL, s.Token = l.Server, first(s.Token, l.Token)
	if s.CA == "" {
		s.Authority = l.Authority
	}
	return s, true, nil
}
