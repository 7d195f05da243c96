"""The life of a broker: it registers, hands over what the controller decides, and leaves."""
