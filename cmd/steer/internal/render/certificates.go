package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// Certificates writes one line a certificate, and under each that could not be ordered why, and what to do.
func Certificates(w io.Writer, p text.Painter, now time.Time, list []api.CertificateStatus) {
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	certificateTable(w, p, now, list, "")
}

// maxCertificateRows is how many certificates status lists when all is well with them.
const maxCertificateRows = 20

// certificatesSection writes the certificates of gateways; of many, those with trouble.
func certificatesSection(w io.Writer, p text.Painter, s api.Status) {
	list, left := s.Certificates, 0
	if len(list) > maxCertificateRows {
		list = nil
		for _, c := range s.Certificates {
			if c.Failures > 0 || c.State == api.CertificateEnded || c.State == api.CertificateMissing {
				list = append(list, c)
			}
		}
		left = len(s.Certificates) - len(list)
	}
	if len(list) > 0 {
		fmt.Fprintln(w)
		certificateTable(w, p, s.Now, list, "  ")
	}
	if left > 0 {
		fmt.Fprintf(w, "\n%d certificates are well: steer get certificates\n", left)
	}
}

func certificateTable(w io.Writer, p text.Painter, now time.Time, list []api.CertificateStatus, indent string) {
	var t text.Table
	t.Row("CERTIFICATE", "NAMES", "FROM", "ENDS", "RENEWED", "USED BY", "STATE")
	for i := range list {
		c := &list[i]
		t.Row(c.Name, names(c.Names), c.Source, day(now, c.NotAfter), day(now, c.RenewAt), dash(strings.Join(c.Services, " ")), certificateState(now, c))
	}
	t.Write(w, p, indent)
	for i := range list {
		if c := &list[i]; c.Do != "" {
			fmt.Fprintf(w, "%s%s: %s\n%s  %s\n", indent, c.Name, c.Error, indent, p.Paint(text.Warn, "what to do: "+c.Do))
		}
	}
}

// names are the first of a list, and how many more there are.
func names(list []string) string {
	const most = 2
	if len(list) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], " "), len(list)-most)
	}
	return strings.Join(list, " ")
}

// day is a date, with how far away it is.
func day(now time.Time, at *time.Time) string {
	if at == nil {
		return "-"
	}
	left := at.Sub(now)
	switch days := int(left / (24 * time.Hour)); {
	case left < 0:
		return at.Format(time.DateOnly) + ", over"
	case days == 0:
		return at.Format("2006-01-02 15:04")
	default:
		return fmt.Sprintf("%s, in %d d", at.Format(time.DateOnly), days)
	}
}

func certificateState(now time.Time, c *api.CertificateStatus) text.Cell {
	out := text.Cell{Text: c.State, Color: text.Good}
	switch c.State {
	case api.CertificateEnded:
		out.Color = text.Bad
	case api.CertificateMissing:
		out.Text, out.Color = "none yet", text.Warn
	case api.CertificateElsewhere:
		out.Text, out.Color = "in files of gateways", text.Faint
	}
	switch {
	case c.Ordering:
		out.Text += ", being ordered"
	case c.Failures > 0 && c.NextTry != nil:
		often := "once"
		if c.Failures > 1 {
			often = fmt.Sprintf("%d times", c.Failures)
		}
		out.Text += fmt.Sprintf(", failed %s (%s), next try in %s", often, c.Reason, text.Span(max(c.NextTry.Sub(now), 0).Round(time.Second)))
		out.Color = text.Warn
		if c.State != api.CertificateValid {
			out.Color = text.Bad
		}
	case c.Error != "":
		out.Text, out.Color = out.Text+": "+c.Error, text.Bad
	}
	return out
}
