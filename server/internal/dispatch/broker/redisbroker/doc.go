// Package redisbroker adds entries to streams of Redis.
//
// An entry has the headers of the message as its fields, and the fields content-type and data. It is
// acknowledged when Redis has answered; whether it survives a crash of Redis is a matter of its appendfsync.
package redisbroker
