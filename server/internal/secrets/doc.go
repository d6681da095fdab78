// Package secrets has the secrets that headers of HTTP targets refer to (docs/operations.md, "Secrets of HTTP
// targets").
//
//	file.go    what the operator's file says
//	hosts.go   where a secret may be sent
//	set.go     which are in force, and who may use them
//	tokens.go  access tokens of OAuth 2.0
package secrets
