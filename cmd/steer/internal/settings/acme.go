package settings

// ACME is how control orders certificates for domains whose service says auto. Certificates say it for themselves.
type ACME struct {
	// Directory is the URL of the authority's directory. "": Let's Encrypt.
	Directory string `yaml:"directory"`
	// Email is an address that the authority may write to. "": none.
	Email string `yaml:"email"`
	// Roots is a file of certificates, in PEM form, that sign the authority's own, such as a company's. A relative path is in the
	// data folder. "": those of the system.
	Roots string `yaml:"roots"`
}
