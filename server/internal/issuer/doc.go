// Package issuer verifies JWTs of one OpenID Connect issuer.
//
//	issuer.go  what a token must have
//	keys.go    the issuer's keys, as they were last read
//	fetch.go   how the issuer is asked
package issuer
