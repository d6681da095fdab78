package client

import (
	"context"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// PutCalendar stores a calendar; see [carillon.Calendars].
func (c *Client) PutCalendar(ctx context.Context, cal carillon.Calendar) (carillon.Calendar, error) {
	m, err := c.service.PutCalendar(ctx, wire.PutCalendarToProto(&cal))
	return wire.CalendarFromProto(m), err
}

// GetCalendar returns a calendar; see [carillon.Calendars].
func (c *Client) GetCalendar(ctx context.Context, namespace, name string) (carillon.Calendar, error) {
	m, err := c.service.GetCalendar(ctx, &pb.GetCalendarRequest{Namespace: namespace, Name: name})
	return wire.CalendarFromProto(m), err
}

// ListCalendars returns a page of calendars; see [carillon.Calendars].
func (c *Client) ListCalendars(ctx context.Context, q carillon.CalendarQuery) (carillon.CalendarPage, error) {
	m, err := c.service.ListCalendars(ctx, wire.CalendarQueryToProto(q))
	return wire.CalendarPageFromProto(m), err
}

// DeleteCalendar removes a calendar; see [carillon.Calendars].
func (c *Client) DeleteCalendar(ctx context.Context, namespace, name string,
	opts ...carillon.DeleteOption) error {
	_, err := c.service.DeleteCalendar(ctx, &pb.DeleteCalendarRequest{Namespace: namespace, Name: name,
		IfGeneration: carillon.DeleteOptions{}.With(opts...).IfGeneration})
	return err
}
