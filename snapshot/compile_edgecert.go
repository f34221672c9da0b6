package snapshot

import "steerpoint/spec"

// certificateOf is the name of the certificate of a domain: what is written for it, or that of the one that is ordered by itself.
func certificateOf(domain, written string) string {
	if written == "auto" {
		return spec.AutoCertificate(spec.Domain(domain))
	}
	return written
}

// autoCertificates are those of domains that say auto.
func autoCertificates(set *spec.Set) (out []EdgeCertificate) {
	for _, c := range set.AutoCertificates(spec.DefaultACME()) {
		out = append(out, edgeCertificate(c))
	}
	return out
}
