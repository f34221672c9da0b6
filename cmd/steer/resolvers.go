package main

import (
	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/control"
)

func resolverFlag(c *cobra.Command, list *[]string) {
	c.Flags().StringArrayVar(list, "resolver", nil, "ADDR or ADDR:PORT that finds the addresses of names elsewhere, for ALIAS records (repeatable; default: those of /etc/resolv.conf)")
}

// takeResolvers puts the options over the settings and checks both.
func takeResolvers(s *settings.Settings, options []string) error {
	for _, r := range options {
		if err := control.CheckResolver(r); err != nil {
			return fault.Usage("--resolver: "+err.Error(), "write it like --resolver 192.0.2.53")
		}
	}
	if len(options) > 0 {
		s.Resolvers = options
	}
	for _, r := range s.Resolvers {
		if err := control.CheckResolver(r); err != nil {
			return fault.BadInput("SETTINGS", "the settings cannot be used", "resolvers: "+err.Error(), "write addresses, such as resolvers: [192.0.2.53]")
		}
	}
	if r := s.DNSSEC.ParentResolver; r != "" {
		if err := control.CheckResolver(r); err != nil {
			return fault.BadInput("SETTINGS", "the settings cannot be used", "dnssec.parentResolver: "+err.Error(), "write an address, such as dnssec: {parentResolver: 192.0.2.53}")
		}
	}
	return nil
}
