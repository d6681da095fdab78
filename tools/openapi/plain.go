package main

// addPlain adds what is served besides the API.
func (d *document) addPlain() {
	text := object{"text/plain": object{"schema": object{"type": "string"}}}
	get := func(name, summary, description string, content object, problems ...string) object {
		answers := object{"200": object{"description": "So it is.", "content": content}}
		for _, p := range append(problems, "403:PermissionDenied") {
			answers[p[:3]] = object{"$ref": "#/components/responses/" + p[4:]}
		}
		return object{"get": object{"operationId": name, "summary": summary, "description": description,
			"tags": []any{"Node"}, "responses": answers}}
	}
	d.addPayloads()
	d.addSessions()
	d.tags = append(d.tags, object{"name": "Node", "description": "What one node says of itself."})
	d.paths["/livez"] = get("Live", "Does the process live?", "Answers as long as the process lives.", text)
	d.paths["/readyz"] = get("Ready", "Can the node serve?", "Answers whether the node can serve.", text,
		"503:Unavailable")
	d.paths["/metrics"] = get("Metrics", "Metrics", "What Prometheus reads.", text)
	d.paths["/openapi.json"] = get("OpenAPI", "This document", "This document.",
		object{"application/json": object{"schema": object{"type": "object"}}})
}

// addPayloads adds the two calls whose bodies are payloads as they are. They are streams, for which the
// annotations of the API have no words.
func (d *document) addPayloads() {
	bytes := func() object {
		return object{"application/octet-stream": object{"schema": object{"type": "string", "format": "binary"}}}
	}
	parameter := func(name string, schema object) object {
		return object{"name": name, "in": "path", "required": true, "schema": schema}
	}
	put := rawCall("Payload", "PutPayload", "PutPayload stores the body and answers with its reference once it is durable. A job is put "+
		"with the reference in its field payload. What no job and no run refers to is removed after three days.",
		object{"description": "Done: the reference.",
			"content": object{"application/json": object{"schema": ref("PutPayloadResponse")}}}, "404")
	put["parameters"] = []any{parameter("namespace", clone(namespace))}
	put["requestBody"] = object{"required": true, "content": bytes()}
	d.paths["/v1/namespaces/{namespace}/payloads"] = object{"put": put}
	get := rawCall("Payload", "GetPayload", "GetPayload returns the bytes of a reference of the namespace.",
		object{"description": "Done: the bytes.", "content": bytes()}, "413")
	reference := object{"type": "string", "format": "payload", "minLength": 1, "maxLength": 88,
		"pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}/[0-9a-f]{64}/[1-9][0-9]*$"}
	get["parameters"] = []any{parameter("namespace", clone(namespace)), parameter("payload", reference)}
	d.paths["/v1/namespaces/{namespace}/payloads/{payload}"] = object{"get": get}
	d.schemas["PutPayloadResponse"] = object{"type": "object", "required": []any{"payload", "size"},
		"description": "PutPayloadResponse is the outcome of PutPayload.", "properties": object{
			"payload": object{"type": "string", "description": "The reference, DAY/SHA256/SIZE."},
			"size":    object{"type": "string", "pattern": "^[0-9]+$", "description": "How many bytes there are."}}}
}

// rawCall is a call that the annotations of the API have no words for; statuses are those that it does not
// answer with.
func rawCall(tag, name, description string, ok object, statuses ...string) object {
	answers := object{"200": ok}
	for _, p := range problems {
		if p.status != "412" {
			answers[p.status] = object{"$ref": "#/components/responses/" + p.name}
		}
	}
	for _, s := range statuses {
		delete(answers, s)
	}
	return object{"operationId": name, "summary": summary(name), "description": description,
		"tags": []any{tag}, "responses": answers}
}

// addSessions adds the calls about the session of a browser. They are about a cookie, for which gRPC has no
// words.
func (d *document) addSessions() {
	json := func(schema object) object { return object{"application/json": object{"schema": schema}} }
	who := func() object {
		return object{"description": "Done: who the caller is.", "content": json(ref("Session"))}
	}
	cookie := func(description string) object {
		return object{"Set-Cookie": object{"description": description, "schema": object{"type": "string"}}}
	}
	get := rawCall("Session", "GetSession", "GetSession says who the caller is, by whatever it shows.", who(), "404", "409", "413")
	ok := who()
	ok["headers"] = cookie("The session, which no script can read: __Host-carillon, or carillon on loopback without TLS.")
	begin := rawCall("Session", "BeginSession", "BeginSession begins a session of 12 hours by an API key, for a page that the node "+
		"serves. The answer sets a cookie, which is shown in place of the key.", ok, "404")
	begin["requestBody"] = object{"required": true, "content": json(object{"type": "object", "required": []any{"key"},
		"additionalProperties": false,
		"properties": object{"key": object{"type": "string", "description": "An API key.",
			"pattern": "^ck_[a-z2-7]{16}_[a-z2-7]{59}$"}}})}
	end := rawCall("Session", "EndSession", "EndSession has the browser forget its session.",
		object{"description": "Done.", "headers": cookie("None any more."), "content": json(object{"type": "object"})}, "404", "413")
	d.paths["/v1/session"] = object{"get": get, "post": begin, "delete": end}
	text := func(description string) object { return object{"type": "string", "description": description} }
	d.schemas["Session"] = object{"type": "object",
		"description": "Session is who a caller of REST is.", "properties": object{
			"authentication": text("How callers prove who they are, as serve --auth says it: none, keys, keys,oidc and so on."),
			"kind":           text("key, oidc or certificate; local where nobody proves anything."),
			"id":             text("Of the key; issuer and subject of a token; the name in a certificate."),
			"grants":         object{"type": "array", "items": ref("AccessGrant")},
			"expire_time": object{"type": "string", "format": "date-time",
				"description": "When what the caller shows ends. Absent: never."}}}
	d.tags = append(d.tags, object{"name": "Session", "description": "The session of a browser."})
}
