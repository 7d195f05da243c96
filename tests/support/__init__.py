"""What tests share: waiting, raw protocol, scripted brokers, Apache Kafka, the simulated disk."""
