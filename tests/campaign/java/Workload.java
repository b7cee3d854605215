import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The Java client at work: an idempotent producer, a bank of transactions and a member of a group, which tell what they do as
 * lines of JSON. Arguments: servers, topic, partitions, bank, group, topics of the group, pause between sends in ms. A line on
 * standard input ends the writing, the end of the input all.
 */
public final class Workload {
    private static volatile boolean writing = true;
    private static volatile boolean reading = true;

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        Thread queue = new Thread(() -> queue(servers, arguments[1], Integer.parseInt(arguments[2]), Integer.parseInt(arguments[6])));
        Thread bank = new Thread(() -> bank(servers, arguments[3]));
        Thread member = new Thread(() -> member(servers, arguments[4], Arrays.asList(arguments[5].split(","))));
        for (Thread each : List.of(queue, bank, member)) each.start();
        int read = System.in.read();
        writing = false;
        queue.join();
        bank.join();
        tell("\"finished\":true");
        while (read >= 0) read = System.in.read();
        reading = false;
        member.join();
        tell("\"closed\":true");
    }

    private static void tell(String event) {
        synchronized (System.out) {
            System.out.println("{" + event + ",\"at\":" + System.nanoTime() + "}");
            System.out.flush();
        }
    }

    private static Properties settings(String servers) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("reconnect.backoff.max.ms", 500);
        settings.put("metadata.max.age.ms", 2000);
        settings.put("request.timeout.ms", 10000);
        settings.put("key.serializer", StringSerializer.class);
        settings.put("value.serializer", StringSerializer.class);
        return settings;
    }

    private static void queue(String servers, String topic, int partitions, int pause) {
        Properties settings = settings(servers);
        settings.put("acks", "all");
        settings.put("enable.idempotence", true);
        settings.put("linger.ms", 5);
        settings.put("delivery.timeout.ms", 400000);
        settings.put("max.block.ms", 200000);
        Semaphore waiting = new Semaphore(2000);
        int sent = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            while (writing) {
                for (int i = 0; i < 15 && waiting.tryAcquire(); i++) {
                    int number = sent++;
                    producer.send(new ProducerRecord<>(topic, number % partitions, null, Integer.toString(number)), (done, error) -> {
                        waiting.release();
                        if (error != null) tell("\"failed\":\"" + error.getClass().getSimpleName() + "\"");
                        else tell("\"acked\":[" + done.partition() + "," + done.offset() + "," + number + "]");
                    });
                }
                Thread.sleep(pause);
            }
            producer.flush();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
        tell("\"sent\":" + sent);
    }

    private static void bank(String servers, String topic) {
        Random random = new Random(7);
        int number = 0;
        while (writing) {
            Properties settings = settings(servers);
            settings.put("transactional.id", "bank-java");
            settings.put("transaction.timeout.ms", 20000);
            settings.put("delivery.timeout.ms", 20000);
            settings.put("max.block.ms", 60000);
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
                producer.initTransactions();
                while (writing) {
                    transfer(producer, topic, number++, random);
                    Thread.sleep(20);
                }
            } catch (KafkaException | IllegalStateException error) {
                // Fenced, timed out or fatal: the next one with this id ends what this one has left.
                tell("\"bank\":\"" + error.getClass().getSimpleName() + "\"");
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    private static void transfer(KafkaProducer<String, String> producer, String topic, int number, Random random) {
        int amount = 1 + random.nextInt(1000);
        boolean wanted = random.nextInt(10) > 0;
        tell("\"transfer\":[" + number + ",\"" + (wanted ? "unknown" : "aborted") + "\"]");
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, 0, null, number + " " + amount));
        producer.send(new ProducerRecord<>(topic, 1, null, number + " " + -amount));
        if (!wanted) {
            producer.abortTransaction();
            return;
        }
        producer.commitTransaction();
        tell("\"transfer\":[" + number + ",\"committed\"]");
    }

    private static void member(String servers, String group, List<String> topics) {
        Properties settings = settings(servers);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        settings.put("session.timeout.ms", 15000);
        settings.put("heartbeat.interval.ms", 500);
        settings.put("default.api.timeout.ms", 30000);
        settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", StringDeserializer.class);
        settings.remove("key.serializer");
        settings.remove("value.serializer");
        Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
        try (KafkaConsumer<byte[], String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(topics, new ConsumerRebalanceListener() {
                public void onPartitionsRevoked(Collection<TopicPartition> gone) {
                    done.clear();
                }

                public void onPartitionsAssigned(Collection<TopicPartition> had) {
                    done.clear();
                    StringBuilder names = new StringBuilder();
                    for (TopicPartition each : had) names.append(names.length() > 0 ? "," : "").append(name(each)).append("]");
                    tell("\"assigned\":[" + names + "],\"added\":[" + names + "]");
                }
            });
            while (reading) {
                StringBuilder records = new StringBuilder();
                for (ConsumerRecord<byte[], String> each : consumer.poll(Duration.ofMillis(300))) {
                    TopicPartition place = new TopicPartition(each.topic(), each.partition());
                    records.append(records.length() > 0 ? "," : "").append(name(place)).append(",").append(each.offset());
                    records.append(",\"").append(each.value()).append("\"]");
                    done.put(place, new OffsetAndMetadata(each.offset() + 1));
                }
                if (records.length() > 0) tell("\"records\":[" + records + "]");
                if (done.isEmpty()) continue;
                try {
                    consumer.commitSync(done);
                    StringBuilder committed = new StringBuilder();
                    done.forEach((place, offset) ->
                        committed.append(committed.length() > 0 ? "," : "").append(name(place)).append(",").append(offset.offset()).append("]"));
                    tell("\"committed\":[" + committed + "]");
                    done.clear();
                } catch (KafkaException error) {
                    // The coordinator moves, or a rebalance has begun: again later.
                    tell("\"error\":\"" + error.getClass().getSimpleName() + "\"");
                }
            }
        }
    }

    private static String name(TopicPartition place) {
        return "[\"" + place.topic() + "\"," + place.partition();
    }
}
