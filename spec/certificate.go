package spec

// Certificate is a chain and its key, for some domains. Exactly one of ACME, ChainFrom with KeyFrom, and Files is set.
type Certificate struct {
	Name string `json:"-"` // the resource's name

	Names     []Domain          `json:"names" required:"true" maxItems:"100" doc:"domains it is for; *.example.com is one label deep, as certificates are"`
	ACME      *ACME             `json:"acme" doc:"ordered and renewed by control, from a certificate authority"`
	ChainFrom *SecretRef        `json:"chainFrom" doc:"value of a Secret that is the chain in PEM form, the server's certificate first"`
	KeyFrom   *SecretRef        `json:"keyFrom" doc:"value of a Secret that is the private key in PEM form"`
	Files     *CertificateFiles `json:"files" doc:"files of each gateway node"`
}

// ACME is how control orders a certificate (RFC 8555).
type ACME struct {
	Directory   string   `json:"directory" default:"https://acme-v02.api.letsencrypt.org/directory" doc:"URL of the certificate authority's directory"`
	Email       string   `json:"email" doc:"address that the certificate authority writes to"`
	Challenge   string   `json:"challenge" dynamic:"dns-01 where the domain is in a zone of ours, else http-01" enum:"http-01,dns-01" doc:"how it is proved that a domain is yours; a wildcard needs dns-01"`
	KeyType     string   `json:"keyType" default:"ecdsa-p256" enum:"ecdsa-p256,ecdsa-p384,rsa-2048,rsa-4096" doc:"kind of key"`
	RenewBefore Duration `json:"renewBefore" default:"720h" min:"24h" max:"2160h" doc:"time before its end at which it is renewed; of a life of less than three times that, a third of it"`
	// EABKeyID and EABKeyFrom bind the account to one of the authority's customers (RFC 8555 section 7.3.4).
	EABKeyID   string     `json:"eabKeyID" doc:"name of the key that binds the account to one you have with the authority"`
	EABKeyFrom *SecretRef `json:"eabKeyFrom" doc:"value of a Secret that is that key, in base64url"`
	Roots      string     `json:"roots" format:"text" doc:"certificates in PEM form that sign the authority's own, such as a company's, instead of those of control's system"`
}

// CertificateFiles names files of a gateway node. They are read again when they change.
type CertificateFiles struct {
	Chain string `json:"chain" required:"true" doc:"file of the chain, in PEM form: the server's certificate first; an absolute path"`
	Key   string `json:"key" required:"true" doc:"file of the private key, in PEM form, mode 0600; an absolute path"`
}

// SecretUses gives what a certificate takes from Secrets, in the order of its fields.
func (c *Certificate) SecretUses() (out []SecretUse) {
	if c.ACME != nil && c.ACME.EABKeyFrom != nil {
		out = append(out, SecretUse{"acme.eabKeyFrom", *c.ACME.EABKeyFrom})
	}
	for _, f := range []struct {
		name string
		ref  *SecretRef
	}{{"chainFrom", c.ChainFrom}, {"keyFrom", c.KeyFrom}} {
		if f.ref != nil {
			out = append(out, SecretUse{f.name, *f.ref})
		}
	}
	return out
}
