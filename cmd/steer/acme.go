package main

import (
	"net/url"
	"os"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/control"
)

// acmeConfig is what the settings say of ordering certificates.
func acmeConfig(s *settings.ACME) (cfg control.ACMEConfig, err error) {
	cfg.Directory, cfg.Email = s.Directory, s.Email
	if u, err := url.Parse(s.Directory); s.Directory != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		return cfg, fault.Usage("acme.directory in steer.yaml is "+s.Directory, "give the https URL of the authority's directory, or leave it out for Let's Encrypt")
	}
	if s.Roots == "" {
		return cfg, nil
	}
	b, err := os.ReadFile(s.Roots)
	if err != nil {
		return cfg, fault.BadInput("CA_UNUSABLE", "the certificates of the authority (acme.roots in steer.yaml) cannot be read", err.Error(), "name a file of certificates in PEM form, or leave it out")
	}
	if _, err := trustingText(b, s.Roots); err != nil {
		return cfg, err
	}
	cfg.Roots = string(b)
	return cfg, nil
}
