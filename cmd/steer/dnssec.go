package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

func (a *app) dnssecCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "dnssec",
		Short: "Keys of signed zones: see them, roll them, give their DS to the parent",
		Long: `A Zone with dnssec.enabled: true is signed. Control makes its keys and rolls them, name servers sign by themselves. What
control cannot do is change the parent zone: give it the DS, and say when it is there. docs/authdns.md says how.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.dnssecStatusCommand(), a.dnssecDSCommand(), a.dnssecRollCommand())
	c.AddCommand(a.dnssecParentCommand("ds-seen", "seen", "Say that the DS that is wanted is at the parent",
		`Say that every name server of the parent zone has the DS that "steer dnssec ds" prints. Until then nothing depends on it: a
zone that was just signed counts as unsigned, and a key-signing key that is replaced stays. Look yourself, at each of
them: dig @NAMESERVER-OF-THE-PARENT ZONE DS. A DS said to be there that is not makes the zone fail everywhere.`))
	c.AddCommand(a.dnssecParentCommand("ds-gone", "gone", "Say that the parent has no DS of the zone any more",
		`Say that no name server of the parent zone has a DS of the zone. It is for a zone with dnssec.enabled: false, which stays
signed until then: unsigned answers below a DS fail everywhere.`))
	return c
}

// signedZone gives one zone of the list.
func (a *app) signedZones(ctx context.Context, name string) (api.DNSSEC, error) {
	c, err := a.client()
	if err != nil {
		return api.DNSSEC{}, err
	}
	all, err := c.SignedZones(ctx)
	if err != nil || name == "" {
		return all, err
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	i := slices.IndexFunc(all.Zones, func(z api.SignedZone) bool { return z.Zone == name })
	if i < 0 {
		return all, &fault.Error{
			Exit: fault.ExitNotSo, Code: api.CodeNotFound, What: "zone " + name + " is not signed here",
			Do: "set dnssec.enabled: true in its Zone; `steer dnssec status` shows those that are",
		}
	}
	all.Zones = all.Zones[i : i+1]
	return all, nil
}

func (a *app) dnssecStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "status [ZONE]",
		Short:   "Show signed zones, their keys, and what comes next",
		Example: "  steer dnssec status\n  steer dnssec status gslb.example.net",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			zones, err := a.signedZones(cmd.Context(), strings.Join(args, ""))
			if err != nil {
				return err
			}
			return a.show(zones, func(w io.Writer, p text.Painter) { render.DNSSEC(w, p, time.Now(), zones.Zones) })
		},
	}
}

func (a *app) dnssecDSCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "ds ZONE",
		Short:   "Print the DS record that the parent should have",
		Example: "  steer dnssec ds gslb.example.net",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			zones, err := a.signedZones(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			z := &zones.Zones[0]
			if len(z.DS) == 0 {
				return &fault.Error{
					Exit: fault.ExitNotSo, Code: "NO_DS", What: "the parent should have no DS of zone " + z.Zone,
					Why: "its state is " + z.State, Do: "`steer dnssec status " + z.Zone + "` says what comes next",
				}
			}
			return a.show(z.DS, func(w io.Writer, _ text.Painter) {
				for _, ds := range z.DS {
					fmt.Fprintln(w, ds)
				}
			})
		},
	}
}

func (a *app) dnssecRollCommand() *cobra.Command {
	var ksk, zsk bool
	var r api.RollRequest
	c := &cobra.Command{
		Use:   "roll ZONE --zsk|--ksk",
		Short: "Begin the roll of a key",
		Long: `Begin the roll of a key. It takes its time by itself, since caches everywhere have to follow: "steer dnssec status" says
what it waits for. The roll of a key-signing key needs a new DS at the parent and "steer dnssec ds-seen".`,
		Example: "  steer dnssec roll gslb.example.net --zsk --reason 'a name server was stolen'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if ksk == zsk {
				return fault.Usage("which key to roll was not said", "add --zsk or --ksk")
			}
			r.Key = api.RoleZSK
			if ksk {
				r.Key = api.RoleKSK
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			z, err := client.RollZoneKey(cmd.Context(), args[0], r)
			if err != nil {
				return err
			}
			return a.showSigned(z)
		},
	}
	c.Flags().BoolVar(&ksk, "ksk", false, "the key-signing key, whose DS the parent has")
	c.Flags().BoolVar(&zsk, "zsk", false, "the zone-signing key")
	c.Flags().StringVar(&r.Reason, "reason", "", "why: kept in the audit trail")
	return c
}

func (a *app) dnssecParentCommand(use, what, short, long string) *cobra.Command {
	r := api.ParentRequest{DS: what}
	c := &cobra.Command{
		Use: use + " ZONE", Short: short, Long: long,
		Example: "  steer dnssec " + use + " gslb.example.net",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			z, err := client.NoteParent(cmd.Context(), args[0], r)
			if err != nil {
				return err
			}
			return a.showSigned(z)
		},
	}
	c.Flags().StringVar(&r.Reason, "reason", "", "why, or where it was seen: kept in the audit trail")
	return c
}

func (a *app) showSigned(z api.SignedZone) error {
	return a.show(z, func(w io.Writer, p text.Painter) { render.DNSSEC(w, p, time.Now(), []api.SignedZone{z}) })
}
