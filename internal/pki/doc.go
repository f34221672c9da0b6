// Package pki holds who is who inside a cluster: its certificate authority, the certificates of nodes, the tokens by
// which a machine becomes a node, and the refusals that say why somebody is not let in.
//
// A cluster has one authority, an ECDSA P-256 key in two files. It signs three kinds of certificates and nothing else:
//
//   - of a node: exactly one URI, steer://<cluster>/node/<name>?roles=<a,b>, which is all that is believed of it;
//   - of control: exactly one URI, steer://<cluster>/control. A node takes a server for control only by that URI, so
//     that the certificate of a node, stolen or misused, cannot play control for the others;
//   - of hosts: names and addresses and no URI, for browsers and scrapers. Inside of the cluster it is nobody's.
//
// Names of hosts mean nothing here: control may be reached by any address.
//
// Time is judged on one side only. Control judges the end of a node's certificate by control's clock. A node judges no
// time at all: it may have booted in 1970, and then it must still join. The start of a certificate is judged by nobody:
// it is back-dated, and a clock of control that was set back must not cut off every node.
//
// The package opens no socket, and never logs or prints a secret.
package pki
