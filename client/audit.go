package client

import (
	"context"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

var _ carillon.Audit = (*Client)(nil)

// ListAudit returns a page of what was recorded of calls; see [carillon.Audit].
func (c *Client) ListAudit(ctx context.Context, q carillon.AuditQuery) (carillon.AuditPage, error) {
	m, err := c.audit.ListAudit(ctx, wire.AuditQueryToProto(&q))
	page := carillon.AuditPage{NextPageToken: m.GetNextPageToken()}
	for _, e := range m.GetEntries() {
		page.Entries = append(page.Entries, wire.AuditEntryFromProto(e))
	}
	return page, err
}

// VerifyAudit reads all chains of what was recorded; see [carillon.Audit].
func (c *Client) VerifyAudit(ctx context.Context, heads []carillon.AuditHead) ([]carillon.AuditChain, error) {
	var req pb.VerifyAuditRequest
	for _, h := range heads {
		req.Heads = append(req.Heads, h.String())
	}
	m, err := c.audit.VerifyAudit(ctx, &req)
	var all []carillon.AuditChain
	for _, chain := range m.GetChains() {
		all = append(all, wire.AuditChainFromProto(chain))
	}
	return all, err
}
