package settings

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steerpoint/cmd/steer/internal/fault"
)

func load(t *testing.T, text string) (Settings, string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(dir, nil)
	return s, dir, err
}

// An IPv4 network in IPv6 form is that of IPv4, or no address would ever lie in it.
// Covers: issue5 dns settings
func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"::ffff:203.0.113.0/120": "203.0.113.0/24", "::ffff:10.1.2.3/104": "10.0.0.0/8", "::ffff:192.0.2.1": "192.0.2.1/32", "::/0": "::/0", "10.1.2.3/8": "10.0.0.0/8",
	} {
		var n Network
		if err := n.UnmarshalText([]byte(text)); err != nil || netip.Prefix(n).String() != want {
			t.Errorf("%s: %s, %v", text, netip.Prefix(n), err)
		}
	}
}

// What the name server is told in steer.yaml.
// Covers: issue5 dns settings
func TestDNS(t *testing.T) {
	s, dir, err := load(t, `
listen: {dot: ":853", doh: "192.0.2.1:443"}
dns:
  certificate: tls/dns.crt
  key: /run/dns.key
  proxies: [192.0.2.9, 10.1.2.3/8, "2001:db8::/32"]
  nsid: fra-1
  maxUDPWithoutCookie: 600
  connections: 20000
  rateLimit: {answers: 50, total: -1, exempt: [198.51.100.0/24]}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := DNS{
		Certificate: filepath.Join(dir, "tls", "dns.crt"), Key: "/run/dns.key", NSID: "fra-1", MaxUDPWithoutCookie: 600, Connections: 20000,
		Proxies: []Network{
			Network(netip.MustParsePrefix("192.0.2.9/32")), Network(netip.MustParsePrefix("10.0.0.0/8")), Network(netip.MustParsePrefix("2001:db8::/32")),
		},
		RateLimit: DNSRateLimit{Answers: 50, Total: -1, Exempt: []Network{Network(netip.MustParsePrefix("198.51.100.0/24"))}},
	}
	if d := cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", s.DNS)); d != "" {
		t.Error(d)
	}
	for role, want := range map[string]string{RoleDoT: "[0.0.0.0:853 [::]:853]", RoleDoH: "[192.0.2.1:443]", RoleNearest: "[]"} {
		if got, err := s.BindIf(role); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v; want %s", role, got, err, want)
		}
	}
	if got := fmt.Sprint(Prefixes(s.DNS.Proxies)); got != "[192.0.2.9/32 10.0.0.0/8 2001:db8::/32]" {
		t.Errorf("%s", got)
	}
}

// The example of the page for people is read as it stands.
// Covers: issue5 dns settings, issue2 docs
func TestDNSExample(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "docs", "authdns*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, found := strings.Cut(string(b), "```\ndns:\n")
		if !found {
			continue
		}
		text, _, _ := strings.Cut(rest, "```")
		s, dir, err := load(t, "dns:\n"+text)
		if err != nil || s.DNS.NSID != "fra-1" || s.DNS.Certificate != filepath.Join(dir, "tls", "dns.pem") || s.DNS.RateLimit.Total != 5000 {
			t.Errorf("%s: %+v, %v", page, s.DNS, err)
		}
		return
	}
	t.Error("no page shows the settings of the name server")
}

// Mistakes in it are named.
// Covers: issue5 dns settings
func TestDNSErrors(t *testing.T) {
	for text, want := range map[string]string{
		"dns: {proxys: []}":                       "field proxys not found",
		"dns: {proxies: [home]}":                  `"home" is no network`,
		"dns: {proxies: [10.0.0.0/40]}":           `"10.0.0.0/40" is no network`,
		"dns: {rateLimit: {answers: many}}":       "cannot unmarshal",
		"dns: {rateLimit: {exempt: [fe80::1%1]}}": "is no network",
	} {
		if _, _, err := load(t, text); fault.Exit(err) != fault.ExitBadInput || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
