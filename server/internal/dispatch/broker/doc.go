// Package broker is what the clients of message brokers have in common. Package brokertarget delivers runs by
// them.
//
//	client.go    the seam: what a client of a kind of broker does
//	source.go    the seam: what takes the messages of a topic
//	settings.go  what a client is made of
package broker
