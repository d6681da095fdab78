// Package httpapi is the REST face: carillon.v1.SchedulerService and carillon.v1.ClusterService over
// net/http.
//
// The paths are the google.api.http annotations of the .proto files, read when the handler is made, and a
// call goes straight to the service's method, in the process: there is no second table of paths and no hop
// over gRPC. Bodies are the messages in JSON as people write it (snake_case or camelCase in, snake_case out,
// payloads as they are, nothing unknown accepted), which is why they are read and written here rather than by
// protojson:
//
//	handler.go        what is served where, and what is around every call
//	cors.go           what pages of trusted origins may do in a browser
//	session.go        sessions of browsers, by a cookie
//	routes.go         a path and a method to a call
//	call.go           one call: request to message, method, message to response
//	stream.go         server-sent events
//	condition.go      If-Match, If-None-Match, ETag, Carillon-Token
//	decode.go         JSON to message: objects, lists, maps
//	decode_value.go   JSON to message: single values
//	payload.go        data and data_base64
//	encode.go         message to JSON
//	patch.go          what a PATCH names
//	surrogate.go      escapes that are half a character
//	fields.go         what fields and enum values are called
//	problem.go        errors as RFC 9457 problem documents
package httpapi
