// Package daprtls is the identity of a node among Dapr's programs, and what is asked of sidecars and of other
// nodes.
//
// Dapr names every workload spiffe://TRUST-DOMAIN/ns/NAMESPACE/APP-ID, in a certificate that its sentry has
// signed. A sidecar accepts a scheduler whose name is /ns/NAMESPACE/dapr-scheduler in the trust domain and
// namespace of the control plane, and is itself known by its certificate: it may speak for its own namespace
// and app id, and for nothing else.
//
//	options.go   where the identity comes from: Dapr's sentry, or files
//	source.go    the identity in force, and the goroutine that keeps it so
//	sentry.go    an identity that sentry signs, renewed at half its life
//	sign.go      one call of sentry
//	token.go     what proves to sentry who is asking
//	files.go     an identity from files, read again when they change
//	write.go     the identity as files, for other programs
//	server.go    mutual TLS on the listener, and who may say what
//	nodes.go     mutual TLS between the nodes of a cluster
package daprtls
