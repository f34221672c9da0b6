// Package demo runs the edges of `steer up --demo`: real HTTP servers on loopback addresses, each of which can be
// broken, slowed or made to lose requests on command, and the resources that steer visitors to them.
//
// It knows nothing of steering: it is only something real to probe. Nothing here runs without --demo.
package demo
