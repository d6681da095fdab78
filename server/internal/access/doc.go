// Package access says who a caller is, and what he may do. It has no I/O: keys and rules are given to it,
// JWTs are verified elsewhere, and requests are judged by what they say.
//
//	secret.go     how API keys are written, and what of them is kept
//	keyring.go    the keys that are in force, by which callers are known
//	session.go    what a browser shows in place of a key
//	rules.go      what is granted to callers with a JWT or a certificate
//	bond.go       what a caller has begun ends with its credential
//	principal.go  a caller and what he is granted
//	table.go      every call with the action that it is, and on what
//	judge.go      whether a principal may make a call, and the words of a refusal
//	redact.go     what is shown to a caller who may read, but not write
//	gate.go       all of it together, as the listeners ask it
package access
