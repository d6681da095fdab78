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
	d.tags = append(d.tags, object{"name": "Node", "description": "What one node says of itself."})
	d.paths["/livez"] = get("Live", "Does the process live?", "Answers as long as the process lives.", text)
	d.paths["/readyz"] = get("Ready", "Can the node serve?", "Answers whether the node can serve.", text,
		"503:Unavailable")
	d.paths["/metrics"] = get("Metrics", "Metrics", "What Prometheus reads.", text)
	d.paths["/openapi.json"] = get("OpenAPI", "This document", "This document.",
		object{"application/json": object{"schema": object{"type": "object"}}})
}
