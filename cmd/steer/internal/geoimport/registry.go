package geoimport

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"strings"
)

// maxDocument bounds what a registry says of a package, in bytes: with hundreds of versions it is a few MB.
const maxDocument = 64 << 20

// Registry finds the base URL of the npm registry: the environment's, else the one npm itself is set to. It is empty
// when there is neither.
func Registry(ctx context.Context, env func(string) string) string {
	if base := env("npm_config_registry"); base != "" {
		return base
	}
	out, err := exec.CommandContext(ctx, "npm", "config", "get", "registry").Output()
	base := strings.TrimSpace(string(out))
	if err != nil || !strings.Contains(base, "://") {
		return ""
	}
	return base
}

// published is a version of a package.
type published struct {
	Version string `json:"version"`
	Dist    struct {
		Tarball   string `json:"tarball"`
		Integrity string `json:"integrity"` // sha512-BASE64, as Subresource Integrity
	} `json:"dist"`
}

// newest asks a registry for the newest version of a package.
func newest(ctx context.Context, client *http.Client, base, pkg string) (published, error) {
	data, err := get(ctx, client, strings.TrimSuffix(base, "/")+"/"+strings.ReplaceAll(pkg, "/", "%2f"), maxDocument)
	if err != nil {
		return published{}, err
	}
	var doc struct {
		Tags     map[string]string    `json:"dist-tags"`
		Versions map[string]published `json:"versions"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return published{}, fmt.Errorf("what the registry says of %s: %w", pkg, err)
	}
	p, ok := doc.Versions[doc.Tags["latest"]]
	if !ok || p.Dist.Tarball == "" {
		return published{}, fmt.Errorf("the registry names no newest version of %s", pkg)
	}
	return p, nil
}

// fetch gets the archive and holds it to the checksum that the registry names.
func (p published) fetch(ctx context.Context, client *http.Client) ([]byte, error) {
	want, ok := strings.CutPrefix(p.Dist.Integrity, "sha512-")
	sum, err := base64.StdEncoding.DecodeString(want)
	if !ok || err != nil {
		return nil, fmt.Errorf("the registry names no SHA-512 of %s", p.Dist.Tarball)
	}
	data, err := get(ctx, client, p.Dist.Tarball, maxArchive)
	if err != nil {
		return nil, err
	}
	if got := sha512.Sum512(data); !bytes.Equal(got[:], sum) {
		return nil, fmt.Errorf("%s is not the archive the registry names: its SHA-512 is another", p.Dist.Tarball)
	}
	return data, nil
}

// get fetches a URL, over TLS unless it is on this machine.
func get(ctx context.Context, client *http.Client, address string, limit int64) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if err := safe(u); err != nil {
		return nil, err
	}
	c := *client
	c.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if len(via) > 5 {
			return errors.New("more than five redirects")
		}
		return safe(r.URL)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	res, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", address, res.Status)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", address, err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("%s: more than %d bytes", address, limit)
	}
	return data, nil
}

func safe(u *url.URL) error {
	addr, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "https" || u.Scheme == "http" && err == nil && addr.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s://%s: only https is used", u.Scheme, u.Host)
}
