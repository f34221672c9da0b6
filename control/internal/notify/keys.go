package notify

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Types of targets, as resources name them.
const (
	typeWebhook  = "webhook"
	typeSlack    = "slack"
	typeDingTalk = "dingtalk"
	typeFeishu   = "feishu"
	typeWeCom    = "wecom"
)

// Target is one notifier as its resource says.
type Target struct {
	Name, Type string
	URL        string // or
	URLFile    string
	// SecretFile, AuthorizationFile: "" for none. Names without a leading slash are within Config.Folder.
	SecretFile, AuthorizationFile string
	On, Services                  []string // Services: empty for all
	Headers                       map[string]string
	Language                      string
}

// hears reports whether an event is for the target.
func (t *Target) hears(e *Event) bool {
	return e.Not != t.Name && slices.Contains(t.On, e.Kind) && (len(t.Services) == 0 || slices.Contains(t.Services, e.Service))
}

// maxKey bounds a key file, in bytes: keys and URLs are far shorter.
const maxKey = 4096

// readKey reads a key file without the blanks around it. Others may not be able to read it: a key that is not kept is
// none.
func readKey(folder, name string) (string, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, name)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", fmt.Errorf("key file: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("key file %s is no plain file", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("key file %s can be read by others (mode %04o): chmod 0600 it", path, info.Mode().Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return "", fmt.Errorf("key file: %w", err)
	}
	key := strings.TrimSpace(string(b))
	switch {
	case len(b) > maxKey:
		return "", fmt.Errorf("key file %s is longer than %d bytes", path, maxKey)
	case key == "":
		return "", fmt.Errorf("key file %s is empty", path)
	case strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }):
		return "", fmt.Errorf("key file %s holds more than one line of printable ASCII", path)
	}
	return key, nil
}

// keys are what a target's files hold.
type keys struct {
	url                   *url.URL
	urlIsKey              bool // it was in a file
	secret, authorization string
}

// read reads the files of a target. They are read anew for every message, so that a key can be changed in place.
func (t *Target) read(folder string) (keys, error) {
	var k keys
	address := t.URL
	for _, f := range []struct {
		name string
		into *string
	}{{t.URLFile, &address}, {t.SecretFile, &k.secret}, {t.AuthorizationFile, &k.authorization}} {
		if f.name == "" {
			continue
		}
		var err error
		if *f.into, err = readKey(folder, f.name); err != nil {
			return keys{}, err
		}
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || t.Type != typeWebhook):
		// The text itself is never told: it may be a key.
		return keys{}, fmt.Errorf("%s holds no URL that a notifier of type %s can post to: it must be https, without credentials", cmp.Or(t.URLFile, "url"), t.Type)
	}
	k.url, k.urlIsKey = u, t.URLFile != ""
	return k, nil
}

// where is the part of a URL that is no key: scheme and host.
func (k *keys) where() string { return k.url.Scheme + "://" + k.url.Host }

// scrub takes keys out of a text that others had a hand in: an error of the network, the answer of a server.
func (k *keys) scrub(s string) string {
	var secrets []string
	add := func(list ...string) {
		for _, v := range list {
			if len(v) >= 6 { // a shorter one would take out words
				secrets = append(secrets, v)
			}
		}
	}
	add(k.secret, k.authorization)
	if fields := strings.Fields(k.authorization); len(fields) > 1 {
		add(fields[1:]...) // after the scheme, which is no key
	}
	if k.urlIsKey {
		add(k.url.RequestURI(), k.url.Path, k.url.RawQuery)
		add(strings.Split(k.url.Path, "/")...)
		for _, values := range k.url.Query() {
			add(values...)
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, v := range secrets {
		s = strings.ReplaceAll(s, v, "[key]")
	}
	return s
}

// plainError takes the URL out of an error of the HTTP client, and every key out of its text.
func (k *keys) plainError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return errors.New(k.scrub(err.Error()))
}
