"""Files of every kind to tables: media, labels, predictions; and COCO and YOLO out again."""
