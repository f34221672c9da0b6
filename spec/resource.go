package spec

import (
	"strings"
)

// APIVersion is the version every document names.
const APIVersion = "steerpoint/v1"

// Kind names a kind of resource.
type Kind string

// The kinds of this version.
const (
	KindService  Kind = "Service"
	KindZone     Kind = "Zone"
	KindOverride Kind = "Override"
	KindNotifier Kind = "Notifier"
	KindSecret   Kind = "Secret"

	KindRuleSet        Kind = "RuleSet"
	KindCertificate    Kind = "Certificate"
	KindDynamicRecords Kind = "DynamicRecords"
)

// Kinds gives the kinds of this version in the order people meet them.
func Kinds() []Kind {
	return []Kind{KindService, KindZone, KindOverride, KindNotifier, KindSecret, KindRuleSet, KindCertificate, KindDynamicRecords}
}

// laterKinds are named in the design and come with later versions.
const laterKinds = " EdgeProvider DNSProvider Region Overlay "

// ParseKind reads a kind as people type it: any case, singular or plural.
func ParseKind(s string) (Kind, bool) {
	for _, k := range Kinds() {
		if strings.EqualFold(s, string(k)) || strings.EqualFold(s, string(k)+"s") {
			return k, true
		}
	}
	return "", false
}

// Resource is one document: the envelope, and exactly one of Service, Zone, Override, Notifier, Secret, RuleSet, Certificate
// and DynamicRecords, by Kind.
//
// It is handled by value; the kind's struct is shared between copies and is not changed once parsed.
type Resource struct {
	Kind   Kind
	Name   string            // DNS label, at most 40 characters; with Kind the resource's key
	Labels map[string]string // free words of the operator
	// Revision is given by the server and grows with every write. In input it is only for compare-and-set.
	Revision uint64

	Service  *Service
	Zone     *Zone
	Override *Override
	Notifier *Notifier
	Secret   *Secret

	RuleSet        *RuleSet
	Certificate    *Certificate
	DynamicRecords *DynamicRecords

	src *source // where it was written; nil for resources without a file
}

// envelope holds the fields every kind has, for the field table.
type envelope struct {
	APIVersion string            `json:"apiVersion" required:"true" enum:"steerpoint/v1" format:"version" doc:"version of the format"`
	Kind       string            `json:"kind" required:"true" enum:"Service,Zone,Override,Notifier,Secret,RuleSet,Certificate,DynamicRecords" doc:"kind of resource"`
	Name       string            `json:"name" required:"true" format:"label" doc:"name of the resource, unique within its kind: a DNS label of at most 40 characters"`
	Labels     map[string]string `json:"labels" doc:"free words of yours, to select by"`
	Revision   uint64            `json:"revision" doc:"given by the server (read-only); when sent, the write is refused unless it is the current one"`
}

// Key is "Service/shop": unique in a Set.
func (r *Resource) Key() string { return string(r.Kind) + "/" + r.Name }

// File is where the resource was read from, "" if not from a file, and the line it starts on.
func (r *Resource) File() (file string, line int) {
	if r.src == nil {
		return "", 0
	}
	return r.src.file, r.src.at("").Line
}

// body is the kind's struct as a pointer, nil if there is none.
func (r *Resource) body() any {
	switch {
	case r.Kind == KindService && r.Service != nil:
		return r.Service
	case r.Kind == KindZone && r.Zone != nil:
		return r.Zone
	case r.Kind == KindOverride && r.Override != nil:
		return r.Override
	case r.Kind == KindNotifier && r.Notifier != nil:
		return r.Notifier
	case r.Kind == KindSecret && r.Secret != nil:
		return r.Secret
	case r.Kind == KindRuleSet && r.RuleSet != nil:
		return r.RuleSet
	case r.Kind == KindCertificate && r.Certificate != nil:
		return r.Certificate
	case r.Kind == KindDynamicRecords && r.DynamicRecords != nil:
		return r.DynamicRecords
	}
	return nil
}

// setBody makes an empty struct for the kind.
func (r *Resource) setBody() any {
	switch r.Kind {
	case KindService:
		r.Service = &Service{Name: r.Name}
		return r.Service
	case KindZone:
		r.Zone = &Zone{Name: r.Name}
		return r.Zone
	case KindOverride:
		r.Override = &Override{Name: r.Name}
		return r.Override
	case KindNotifier:
		r.Notifier = &Notifier{Name: r.Name}
		return r.Notifier
	case KindSecret:
		r.Secret = &Secret{Name: r.Name}
		return r.Secret
	case KindRuleSet:
		r.RuleSet = &RuleSet{Name: r.Name}
		return r.RuleSet
	case KindCertificate:
		r.Certificate = &Certificate{Name: r.Name}
		return r.Certificate
	case KindDynamicRecords:
		r.DynamicRecords = &DynamicRecords{Name: r.Name}
		return r.DynamicRecords
	}
	return nil
}

// source is the place of every value of a resource in its file.
type source struct {
	file string
	pos  map[string]position // by field path; "" is the document
}

type position struct{ Line, Column int }

// at gives the place of a path, or of the nearest field above it.
func (s *source) at(path string) position {
	if s == nil {
		return position{}
	}
	for {
		if p, ok := s.pos[path]; ok || path == "" {
			return p
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// String is the minimal form as YAML, for logs and tests.
func (r Resource) String() string {
	text, err := r.YAML(Minimal)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
