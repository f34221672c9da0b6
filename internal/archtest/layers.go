package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// layer says what the packages of one place may import outside of tests.
type layer struct {
	// path is a package of the module, or a tree of them ("geo/..." is geo and all below it).
	path string
	// ours are the packages or trees of the module it may import; its own tree is always among them.
	ours []string
	// std, unless nil, are the only standard packages it may import.
	std []string
	// deps are the module prefixes of others it may import.
	deps []string
	why  string
}

// pureStd is what the decision core may use of the standard library: values and text, nothing that reads the world.
// time is there for Duration, Time and Location as values; checkPurity refuses its clock.
var pureStd = []string{
	"cmp", "container/heap", "encoding", "encoding/json", "errors", "fmt", "hash/fnv", "iter", "maps", "math",
	"math/big", "math/bits", "net/netip", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8",
}

const (
	prometheus = "github.com/prometheus/client_golang"
	text       = "golang.org/x/text"
	xnet       = "golang.org/x/net"
	xsync      = "golang.org/x/sync"
	xsys       = "golang.org/x/sys"
)

// layers is the map of the module, lowest first. The first entry whose path fits a package is its layer.
var layers = []layer{
	{
		path: "steering/steertest/...", ours: []string{"steering/...", "spec/...", "geo/..."}, deps: []string{"golang.org/x/tools/txtar"},
		why: "the timeline runner feeds resources to the core, so it stands above spec although it lies beside the core",
	},
	{
		path: "steering/latency", std: pureStd,
		why: "a leaf of the core is read in one sitting: it needs nothing of ours and nothing that acts",
	},
	{path: "steering/health", std: pureStd, why: "a leaf of the core, see steering/latency"},
	{path: "steering/quorum", std: pureStd, why: "a leaf of the core, see steering/latency"},
	{path: "steering/damping", std: pureStd, why: "a leaf of the core, see steering/latency"},
	{path: "steering/selection", std: pureStd, why: "a leaf of the core, see steering/latency"},
	{path: "steering/scope", std: pureStd, why: "a leaf of the core, see steering/latency"},
	{
		path: "steering", std: pureStd,
		ours: []string{"steering/latency", "steering/health", "steering/quorum", "steering/damping", "steering/selection", "steering/scope"},
		why:  "the decision stands on its leaves alone, so that what is replayed is what was decided",
	},
	{
		path: "geo/...", ours: []string{"steering/scope"}, deps: []string{"github.com/oschwald/maxminddb-golang/v2", xsync},
		why: "an address has a place whatever the operator wrote",
	},
	{
		// internal/hidden: the values of a Secret are in what the operator wrote, and must not show in what is said of it.
		// internal/rrdata: records are checked by the reader that the name server serves them by.
		// internal/ruletext: rules are checked by the reader that the gateway runs them by.
		path: "spec/...", ours: []string{"steering", "steering/scope", "geo/...", "internal/hidden", "internal/rrdata", "internal/ruletext"}, deps: []string{"go.yaml.in/yaml/v3", xnet, text},
		why: "what the operator wrote is checked offline, by files alone",
	},
	{
		path: "report", ours: []string{"steering", "steering/scope"}, deps: []string{},
		why: "what comes up is values; it knows neither who made them nor who takes them",
	},
	{
		// internal/hidden: secrets and keys of name servers go down too, and must not show in what is said of a snapshot.
		path: "snapshot", ours: []string{"steering", "steering/scope", "geo/...", "spec/...", "report", "internal/hidden", "internal/rrdata"}, deps: []string{},
		why: "what goes down is values; it knows neither who compiled them nor who serves them",
	},
	{
		path: "wire/...", ours: []string{"report", "snapshot", "internal/..."}, deps: []string{prometheus, xnet, xsync, xsys},
		why: "the transport moves reports and snapshots between machines; what they mean is for those at its ends",
	},
	{
		path: "agent/...", ours: []string{"report", "snapshot", "wire/...", "internal/..."}, deps: []string{prometheus, xnet, xsync, xsys},
		why: "the node's half hands snapshots to planes through small interfaces, so that one agent serves every role",
	},
	{
		path: "probe/...", ours: []string{"report", "snapshot", "internal/..."},
		deps: []string{prometheus, xnet, xsync, xsys, "github.com/miekg/dns"}, // questions of kind dns
		why:  "a plane knows no other plane; cmd wires them",
	},
	{
		path: "authdns/...", ours: []string{"steering/scope", "geo/...", "report", "snapshot", "internal/..."},
		deps: []string{"github.com/miekg/dns", prometheus, xnet, xsync, xsys},
		why:  "a name server answers from its snapshot; what it could import of control it could come to wait for",
	},
	{
		path: "edge/...", ours: []string{"steering/selection", "steering/scope", "geo/...", "report", "snapshot", "internal/..."},
		deps: []string{prometheus, xnet, xsync, xsys},
		why:  "a gateway serves from its snapshot, and chooses origins by the core's leaf; it knows no other plane",
	},
	{
		path: "analytics/...", ours: []string{"report", "internal/..."}, deps: []string{prometheus, "github.com/prometheus/prometheus"},
		why: "series are kept of what it is told: it knows neither who decides nor who asks, and alone knows the series store",
	},
	{
		path: "control/api", ours: []string{}, deps: []string{},
		why: "what programs and the command line speak with control: plain values that pull in nothing else",
	},
	{
		path: "control/internal/archive", ours: []string{"internal/atomicfile"}, deps: []string{"modernc.org/sqlite"},
		why: "history is rows in a file: it knows neither the store they come from nor what they mean",
	},
	{
		path: "control/internal/resolve", ours: []string{"snapshot", "internal/atomicfile"}, deps: []string{"github.com/miekg/dns"},
		why: "addresses of names elsewhere are found by asking a resolver: it knows neither the store nor what they are for",
	},
	{
		path: "control/internal/parentds", ours: []string{}, deps: []string{"github.com/miekg/dns"},
		why: "what a parent zone has is asked of its name servers: it knows neither keys nor what follows from the answer",
	},
	{
		path: "control/internal/issue", ours: []string{}, deps: []string{"golang.org/x/crypto"},
		why: "certificates are ordered by asking an authority: it knows neither the store nor who shows proofs",
	},
	{
		path: "control/internal/zonekeys", ours: []string{"snapshot"}, deps: []string{},
		why: "when keys roll is a machine of values and times: it knows neither the store nor who signs",
	},
	{
		path: "control/...", ours: []string{"steering/...", "geo/...", "spec/...", "report", "snapshot", "internal/..."},
		deps: []string{"github.com/danielgtaylor/huma/v2", prometheus, "go.etcd.io/etcd", "go.uber.org/zap", "google.golang.org/grpc", xnet, xsync, xsys},
		why:  "control alone knows the store; it is handed publishers and probers as small interfaces",
	},
	{
		path: "lab/...", ours: []string{"internal/..."}, deps: []string{"github.com/miekg/dns", xnet, xsync, xsys},
		why: "the lab is the network under the program: it knows packets and processes, nothing of steering",
	},
	{
		path: "packaging/...", ours: []string{}, deps: []string{"github.com/miekg/dns", xsys},
		why: "the package is tested from outside, as a machine gets it",
	},
	{
		path: "internal/archtest", ours: []string{"spec/...", "steering/..."}, deps: []string{"golang.org/x/tools/txtar"},
		why: "the rules stand outside of what they judge",
	},
	{
		path: "internal/demo/...", ours: []string{"internal/..."},
		why: "the demo edges are ordinary web servers that know nothing of steering",
	},
	{
		path: "internal/importer/...", ours: []string{"steering/scope", "spec/...", "internal/rrdata"}, deps: []string{"go.yaml.in/yaml/v3", "github.com/miekg/dns"},
		why: "an import reads files of others and writes resources of ours: it needs what a resource is, and no server",
	},
	{
		path: "internal/rrdata", ours: []string{}, deps: []string{"github.com/miekg/dns"},
		why: "data of records means the same to those who check it and to those who serve it",
	},
	{
		path: "internal/proxyproto", ours: []string{}, deps: []string{},
		why: "who a proxy says the client is means the same before a question of DNS and before a request of HTTP",
	},
	{
		path: "internal/dnsupdate", ours: []string{"internal/rrdata"}, deps: []string{"github.com/miekg/dns"},
		why: "RFC 2136 is values in, values out; the library reads messages, rrdata the data that is served",
	},
	{
		path: "internal/echo16", ours: []string{"internal/..."}, deps: []string{prometheus, xnet, xsync, xsys},
		why: "the echo of UDP probes is a listener with counters of its own, and knows nothing of who asks",
	},
	{
		path: "internal/...", ours: []string{"internal/..."}, deps: []string{xsync, xsys},
		why: "helpers without a word of the field can serve every plane",
	},
	{
		path: "cmd/...", ours: []string{"..."},
		deps: []string{
			"github.com/spf13/cobra", "github.com/spf13/pflag", prometheus, "github.com/miekg/dns", "go.yaml.in/yaml/v3",
			"golang.org/x/tools/txtar", "golang.org/x/term", xnet, xsync, xsys,
		},
		why: "the program wires the planes: flags, listeners and nothing that needs a unit test",
	},
	{
		path: "bench/...", ours: []string{"..."}, deps: []string{"github.com/miekg/dns", prometheus},
		why: "benchmarks measure every layer, and nothing imports them",
	},
}

// planes never import one another, in tests neither: what needs two of them is a test of the program.
var planes = []string{"probe", "authdns", "control", "analytics", "edge"}

// testOnly packages are imported from tests, and by the program where the list says so.
var testOnly = map[string][]string{
	"steering/steertest": {"cmd/..."}, // steer replay is the timeline runner

	"internal/hidden/leaktest": {}, // it looks for values that leaked
	"internal/acmetest":        {}, // a certificate authority that misbehaves
}

// within reports whether a package path lies at path or in the tree path names.
func within(pkg, path string) bool {
	if path == "..." {
		return true
	}
	if tree, ok := strings.CutSuffix(path, "/..."); ok {
		return pkg == tree || strings.HasPrefix(pkg, tree+"/")
	}
	return pkg == path
}

func withinAny(pkg string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return within(pkg, p) })
}

// layerOf is the layer of a package of ours, nil if the table does not know it.
func layerOf(pkg string) *layer {
	for i := range layers {
		if within(pkg, layers[i].path) {
			return &layers[i]
		}
	}
	return nil
}

// ourImport splits an import path into its path in the module.
func ourImport(path string) (rel string, ok bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

// standard reports whether an import path is of the standard library: its first element has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func checkLayers(packages []*Package) []Finding {
	var found []Finding
	for _, p := range packages {
		rel := p.Rel()
		l := layerOf(rel)
		if l == nil {
			found = append(found, Finding{"layer", rel, "has no layer: add it to the table, with its reason", "a package nobody placed ends up importing everything"})
			continue
		}
		for _, imp := range p.Imports {
			if what := forbidden(l, rel, imp); what != "" {
				found = append(found, Finding{"import", rel, what, l.why})
			}
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if what := crossesPlanes(rel, imp); what != "" {
				found = append(found, Finding{"import", rel, what, "a plane knows no other plane; what needs two is a test of the program"})
			}
		}
	}
	return found
}

// forbidden says what is wrong with an import of a package in layer l; "" if nothing is.
func forbidden(l *layer, rel, imp string) string {
	if ours, ok := ourImport(imp); ok {
		for pkg, users := range testOnly {
			if within(ours, pkg) && !within(rel, pkg) && !withinAny(rel, users) {
				return fmt.Sprintf("imports %s, which is for tests", ours)
			}
		}
		own := strings.TrimSuffix(l.path, "/...")
		if withinAny(ours, l.ours) || (own != l.path && within(ours, l.path)) {
			return ""
		}
		return "may not import " + ours
	}
	if standard(imp) {
		if l.std == nil || slices.Contains(l.std, imp) {
			return ""
		}
		return "may not import " + imp
	}
	for _, d := range l.deps {
		if imp == d || strings.HasPrefix(imp, d+"/") {
			return ""
		}
	}
	return "may not import " + imp
}

func crossesPlanes(rel, imp string) string {
	ours, ok := ourImport(imp)
	if !ok {
		return ""
	}
	from, _, _ := strings.Cut(rel, "/")
	to, _, _ := strings.Cut(ours, "/")
	if from != to && slices.Contains(planes, from) && slices.Contains(planes, to) {
		return "imports the plane " + to
	}
	return ""
}

// staleLayers names the layers of the table that no package of the tree is in.
func staleLayers(packages []*Package) []string {
	var stale []string
	for i := range layers {
		used := slices.ContainsFunc(packages, func(p *Package) bool { return layerOf(p.Rel()) == &layers[i] })
		if !used {
			stale = append(stale, layers[i].path)
		}
	}
	return stale
}
