"""MQTT clients of brokers that reshape their network (O): what `protocol.kind = "overlay"` makes of a broker."""
