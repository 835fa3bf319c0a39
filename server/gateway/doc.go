// Package gateway runs connectors over HTTP: a caller's request becomes the connector's, is authenticated on the server, is
// sent, and its answer shaped.
package gateway
